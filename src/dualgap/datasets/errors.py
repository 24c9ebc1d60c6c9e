"""The one exception for a data file that cannot be used as it is."""

from __future__ import annotations

# Longest excerpt of a file that a message quotes: enough to recognise a cell, short enough for one line.
_EXCERPT_LENGTH = 40


class DataFileError(ValueError):
    """A data file is malformed; the one-line message names the file, the line, what was found, the remedy."""


def file_error(source: str, problem: str, line: int | None = None) -> DataFileError:
    """Compose the error for `problem` found in the file `source`, at the 1-based `line` where it is known."""
    place = source if line is None else f"{source}, line {line}"
    return DataFileError(f"{place}: {problem}")


def excerpt(text: str | bytes) -> str:
    """Quote a piece of a file so that it fits in a one-line message, whatever bytes it holds."""
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    if len(shown) > _EXCERPT_LENGTH:
        shown = shown[:_EXCERPT_LENGTH] + "..."
    return repr(shown)

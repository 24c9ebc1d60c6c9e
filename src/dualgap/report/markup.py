"""The small parts a page is made of: escaped text, numbers, tables, sections."""

from __future__ import annotations

import html
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# About one printed page; forty-five pairs of ten classes are the usual reason for more.
MAX_ROWS = 30
# Shown where a number does not exist.
MISSING = "\u2013"

# Characters HTML does not allow, and lone surrogates, which UTF-8 does not.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_EXPONENT = re.compile(r"\d\.\de[-+]\d+")


def escape(text: object) -> str:
    """Make any text safe to put into HTML, as content or as a quoted attribute.

    Parameters
    ----------
    text : object
        Its ``str`` is taken.

    Returns
    -------
    str
        Escaped, with the characters HTML or UTF-8 forbid replaced by U+FFFD.
    """
    return html.escape(_FORBIDDEN.sub("\ufffd", str(text)), quote=True)


def unbroken(sentence: str) -> str:
    """Escape a sentence and keep a browser from breaking its numbers at the minus of an exponent."""
    return _EXPONENT.sub(r'<span class="whole">\g<0></span>', escape(sentence))


def number(value: float, spec: str) -> str:
    """A number for a table cell, as HTML."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "&infin;" if value > 0 else "-&infin;"
    # With an ordinary hyphen for a minus: people paste these numbers into code.
    return format(value, spec)


def cells(values: Iterable[str]) -> str:
    """Cells of numbers, from HTML."""
    return "".join(f'<td class="n">{value}</td>' for value in values)


def row(name: object, rest: str) -> str:
    """A row of a table: its name and the cells after it."""
    return f'<tr><th scope="row">{escape(name)}</th>{rest}</tr>\n'


def table(name: str, heads: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    """A table in a container of its own that scrolls sideways, so that the page itself never does."""
    # The first column is text, the others are numbers.
    columns = [f'<th scope="col">{head}</th>' for head in heads[:1]]
    columns += [f'<th scope="col" class="n">{head}</th>' for head in heads[1:]]
    top = f"<thead><tr>{''.join(columns)}</tr></thead>\n" if heads else ""
    kind = f' class="{kind}"' if kind else ""
    # tabindex: without it a keyboard cannot scroll the container.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}">\n<table{kind}>\n{top}'
        f"<tbody>\n{''.join(rows)}</tbody>\n</table>\n</div>\n"
    )


def pairs(name: str, facts: Iterable[tuple[str, str]]) -> str:
    """A table of names and texts."""
    return table(name, [], [row(key, f"<td>{escape(value)}</td>") for key, value in facts], "pairs")


def section(name: str, body: str) -> str:
    """A part of the page under a heading; nothing where there is nothing to show."""
    return f"<section>\n<h2>{escape(name)}</h2>\n{body}</section>\n" if body else ""


def remark(text: str) -> str:
    """A sentence in small print."""
    return f'<p class="dim">{escape(text)}</p>\n'


def and_more(total: int, what: str) -> str:
    """How many rows a table has left out."""
    return remark(f"{total - MAX_ROWS} more {what}") if total > MAX_ROWS else ""

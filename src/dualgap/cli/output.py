"""How the commands print: facts with a label, one-line errors, numbers and certificates in words."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from pathlib import Path

    from dualgap.result import Certificate

# Exit statuses: an error that is a bug of ours, a mistake of the user's, a run short of its tolerance.
UNEXPECTED, USAGE, SHORT = 1, 2, 3
# The longest label is "certificate", and two blanks follow it.
_LABEL_WIDTH = 13
# A message of more than this is no longer read as one line.
_LONGEST = 400


def standard() -> Console:
    """The console of stdout."""
    return Console(highlight=False)


def fact(label: str, text: str, *, style: str = "") -> None:
    """Print a label and what there is to say; wrapped under itself on a terminal, one line anywhere else."""
    console = standard()
    lines = [text]
    if console.is_terminal:
        # A terminal of no width worth the name still gets whole words.
        room = max(console.width - _LABEL_WIDTH - 1, 20)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        head = label if number == 0 else ""
        shown = Text(head.ljust(_LABEL_WIDTH), style="bold") + Text(line, style=style)
        console.print(shown, soft_wrap=True)


def fail(message: str, *, prefix: str = "error: ") -> None:
    """Print an error on stderr, in one line."""
    line = " ".join(message.split())
    typer.echo(prefix + (line if len(line) <= _LONGEST else line[:_LONGEST] + " ..."), err=True)


def warn(message: str) -> None:
    """Print a warning on stderr, in one line."""
    fail(message, prefix="warning: ")


def sentence(error: Exception) -> str:
    """What an exception says, for someone who did not write the program."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}); use --float32 or a smaller --cache-size"
    if isinstance(error, ValueError | OSError | ImportError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}; please report it with what 'dualgap --debug' shows"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number and its noun, such as "1 sample" or "15,000 samples"."""
    noun = singular if number == 1 else plural or singular + "s"
    return f"{number:,} {noun}"


def seconds(value: float) -> str:
    """A time, with as many digits as anyone reads."""
    if value >= 60:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes} min {rest} s"
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def size(path: Path) -> str:
    """The size of a file in the unit that suits it."""
    value = float(path.stat().st_size)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def verdict(certificate: Certificate) -> str:
    """A certificate in words."""
    if certificate.note:
        return (
            f"no duality gap exists: {certificate.note.rstrip('.')}; "
            f"the optimality conditions hold to within {at_most(certificate.kkt_violation)}"
        )
    if not math.isfinite(certificate.relative_gap):
        return f"no bound: the gap is not finite; KKT violation {at_most(certificate.kkt_violation)}"
    return (
        f"within {at_most(certificate.relative_gap)} of the best possible objective (relative duality gap); "
        f"no solver can improve it by more"
    )


def evidence(certificate: Certificate) -> str:
    """The numbers behind the words."""
    return (
        f"primal {certificate.primal:.10g}, dual {certificate.dual:.10g}, "
        f"KKT violation {at_most(certificate.kkt_violation)}"
    )

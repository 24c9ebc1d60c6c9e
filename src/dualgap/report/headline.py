"""The certificate in words, at the top of the page."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from dualgap.report.markup import escape, unbroken
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dualgap.result import Certificate

    Named = tuple[str, Certificate]

# Rounding in a sum of a million float64 terms stays below 1e6 * 2.2e-16. A larger infeasibility is real,
# and then the dual objective is no longer strictly a lower bound.
ROUNDING = 1e-9
# Half of float64's spacing at 1: the objective itself is not known better than that.
_EXACT = 1.1e-16


def worst_first(rows: Iterable[Named]) -> list[Named]:
    """Tasks by their certificates: a broken gap, then no gap at all (judged by its violation), then the larger gap."""
    return sorted(rows, key=lambda row: _badness(row[1]), reverse=True)


def opening(rows: Sequence[Named]) -> str:
    """The page in a sentence; `rows` are the worst first."""
    return _verdict(rows[0][1]) if rows else "No certificate was recorded."


def headline(certificates: Sequence[Named], statuses: Sequence[str], *, each: str = "tasks") -> str:
    """The first section; `each` says what the certificates are of."""
    rows = worst_first(certificates)
    sure = bool(rows) and _badness(rows[0][1])[0] == 0
    said = "".join(f"<p>{unbroken(sentence)}</p>\n" for sentence in (_context(rows, each) if rows else []))
    return (
        f'<section class="headline{"" if sure else " warn"}">\n<p class="verdict">{unbroken(opening(rows))}</p>\n'
        f"{said}{_statuses(statuses)}</section>\n"
    )


def _badness(certificate: Certificate) -> tuple[int, float]:
    if certificate.note:
        violation = certificate.kkt_violation
        return (1, math.inf if math.isnan(violation) else violation)
    gap = certificate.relative_gap
    return (0, gap) if math.isfinite(gap) else (2, 0.0)


def _verdict(certificate: Certificate) -> str:
    """The certificate in words, as plain text."""
    if certificate.note:
        return (
            f"No duality gap exists here: {certificate.note.strip().rstrip('.')}. "
            f"The optimality conditions are met to within {at_most(certificate.kkt_violation)} "
            "(KKT violation); a better solution may exist."
        )
    gap = certificate.relative_gap
    if not math.isfinite(gap):
        return (
            "The certificate gives no bound: the duality gap is not a finite number. "
            f"The KKT violation is {at_most(certificate.kkt_violation)}."
        )
    if gap <= _EXACT:
        return "The objective is the best possible, up to rounding; no solver can improve it."
    return f"The objective is within {at_most(gap)} (relative) of the best possible; no solver can improve it by more."


def _context(rows: list[Named], each: str) -> list[str]:
    """What the verdict on the worst task leaves unsaid, as plain text."""
    said = []
    if len(rows) > 1:
        said.append(f"That is the worst of {len(rows)} {each}: {rows[0][0]}.")
    bounded = [row for row in rows if _badness(row[1])[0] == 0]
    if bounded and len(bounded) < len(rows):
        said.append(
            f"A gap exists for {len(bounded)} of the {each}; the worst of these is {bounded[0][0]}. "
            + _verdict(bounded[0][1])
        )
    missed = max((row[1].infeasibility for row in rows if not math.isnan(row[1].infeasibility)), default=0.0)
    if missed > ROUNDING:
        said.append(
            f"Caution: the equality constraints are missed by {at_most(missed)}, which is more than rounding; "
            "the bound holds only up to that error."
        )
    return said


def _statuses(sentences: Sequence[str]) -> str:
    """Each sentence once: forty-five tasks that converged need not say so forty-five times."""
    if not sentences:
        return ""
    counts = Counter(sentences)
    items = "".join(
        f"<li>{escape(sentence)}{f' <b>({count} times)</b>' if count > 1 else ''}</li>\n"
        for sentence, count in counts.most_common()
    )
    return f"<p>How the {'run' if len(sentences) == 1 else 'runs'} ended:</p>\n<ul>\n{items}</ul>\n"

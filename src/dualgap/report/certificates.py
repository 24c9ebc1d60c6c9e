"""The certificates in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualgap.report.headline import worst_first
from dualgap.report.markup import MAX_ROWS, and_more, cells, escape, number, remark, row, section, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dualgap.result import Certificate


def certificates(given: Sequence[tuple[str, Certificate]]) -> str:
    """A table of the tasks, the worst first."""
    if not given:
        return ""
    rows = [_row(name, certificate) for name, certificate in worst_first(given)[:MAX_ROWS]]
    heads = ["Task", "Relative gap", "Gap", "Objective", "Lower bound", "KKT violation", "Infeasibility"]
    more = and_more(len(given), "tasks have certificates at least as good as the last one shown.")
    meaning = (
        "Recomputed in float64 from the solution alone. "
        "The KKT violation is the most by which any optimality condition is missed. "
    )
    if not all(certificate.note for _, certificate in given):
        meaning += (
            "The best possible objective lies between the lower bound (the dual objective) and the objective "
            "(the primal one); the gap is their difference, the relative gap is that divided by the larger."
        )
    name = "Certificate" if len(given) == 1 else "Certificates, worst first"
    return section(name, table(name, heads, rows) + more + remark(meaning))


def _row(name: str, certificate: Certificate) -> str:
    if certificate.note:
        judged = f'<td class="note" colspan="4">no gap: {escape(certificate.note)}</td>'
    else:
        judged = cells(
            [
                number(certificate.relative_gap, ".2e"),
                number(certificate.gap, ".2e"),
                number(certificate.primal, "#.10g"),
                number(certificate.dual, "#.10g"),
            ]
        )
    return row(
        name, judged + cells([number(certificate.kkt_violation, ".2e"), number(certificate.infeasibility, ".1e")])
    )

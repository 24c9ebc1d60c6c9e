"""A path on one page: every solution along the values of a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.report.chart import Series, line_chart
from dualgap.report.headline import headline, opening, worst_first
from dualgap.report.markup import cells, number, pairs, remark, row, section, table
from dualgap.report.page import document
from dualgap.report.scales import Axis
from dualgap.report.versions import versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.path import PathResult

# Values that differ by more than this factor are drawn on a logarithmic axis.
_WIDE = 10.0
_SKIPPED = "for which the solution before was proved to be good enough"


def render_path(path: PathResult, title: str | None = None) -> str:
    """Write the page of a path as text.

    Parameters
    ----------
    path : PathResult
        What `svm_path` has returned.
    title : str, optional
        Heading of the page.

    Returns
    -------
    str
        A complete HTML document.
    """
    order = np.argsort(path.values, kind="stable")
    named = [(f"{path.parameter} = {path.values[k]:.6g}", path.certificates[k]) for k in order]
    facts = {
        "Values": f"{len(path)} of {path.parameter}, from {path.values.min():.6g} to {path.values.max():.6g}",
        "Solved": "all" if not path.skipped.any() else f"all but {int(path.skipped.sum())}, {_SKIPPED}",
        "Time": f"{path.seconds.sum():.3g} s",
        "Samples": f"{path.coefficients.shape[1]:,}",
        **({} if path.parameter == "gamma" else {"gamma of the kernel": f"{path.gamma:.6g}"}),
        **versions(),
    }
    sections = [
        headline(named, [path.statuses[k].message for k in order], each="values"),
        section("Along the path", f'<div class="charts">\n{_charts(path, order)}</div>\n{_best(path)}'),
        section("Values", _table(path, order)),
        section("Facts", pairs("Facts", facts.items())),
    ]
    return document(title or f"A path over {path.parameter}", opening(worst_first(named)), sections)


def _is_wide(values: NDArray[np.float64]) -> bool:
    known = values[np.isfinite(values)]
    return bool(known.size and known.min() > 0.0 and known.max() > _WIDE * known.min())


def _charts(path: PathResult, order: NDArray[np.intp]) -> str:
    x = [float(value) for value in path.values[order]]
    across = Axis(path.parameter, log=_is_wide(path.values), from_zero=False)

    def chart(title: str, values: NDArray[np.float64], axis: Axis) -> str:
        y = [float(value) for value in values[order]]
        return line_chart([Series(axis.label, x, y, marked=True)], title=title, x=across, y=axis)

    drawn = chart("Objective", path.objectives, Axis("objective", log=_is_wide(path.objectives)))
    drawn += chart("Certified relative gap", path.relative_gaps, Axis("relative gap", log=True))
    drawn += chart("Support vectors", path.n_support.astype(np.float64), Axis("count", whole=True))
    if path.validation_errors is not None:
        drawn += chart("Validation error", path.validation_errors, Axis("error"))
    return drawn


def _best(path: PathResult) -> str:
    if path.validation_errors is None:
        return ""
    best = path.best
    return remark(
        f"The least validation error is {path.validation_errors[best]:.4g}, at {path.parameter} = "
        f"{path.values[best]:.6g}."
    )


def _table(path: PathResult, order: NDArray[np.intp]) -> str:
    """Every value: nobody asks for more of them than can be read."""
    heads = [path.parameter, "Objective", "Lower bound", "Relative gap", "KKT violation", "Support vectors"]
    heads += ["Iterations", "Seconds"] + ([] if path.validation_errors is None else ["Validation error"])
    rows = []
    for k in order:
        certificate = path.certificates[k]
        values = [
            number(float(path.objectives[k]), "#.8g"),
            number(certificate.dual, "#.8g"),
            number(certificate.relative_gap, ".2e"),
            number(certificate.kkt_violation, ".2e"),
            f"{path.n_support[k]:,}",
            "none" if path.skipped[k] else f"{path.iterations[k]:,}",
            number(float(path.seconds[k]), ".3g"),
        ]
        if path.validation_errors is not None:
            values.append(number(float(path.validation_errors[k]), ".4g"))
        rows.append(row(f"{path.values[k]:.6g}", cells(values)))
    return table("Values", heads, rows)

"""Problems one after the other, with a file that is complete after each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualgap.bench.results import check_same, read_report, write_report

if TYPE_CHECKING:
    from dualgap.bench.results import Compared, Report


def run_all(
    problems: Sequence[Any],
    report: Report,
    run: Callable[[Any, Callable[[str], None]], Compared],
    *,
    file: Path | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    done: Callable[[Compared], None] = lambda result: None,
    deadline: float | None = None,
) -> Report:
    """Run problems one after the other; the file is complete after each of them.

    Parameters
    ----------
    problems : sequence
        What to run; each has a ``name``.
    report : Report
        Machine, versions and settings; the problems of the result.
    run : callable
        Runs a problem and tells its steps.
    file : Path or None
        Where results are kept.
    resume : bool
        Whether problems that the file holds are taken from there.
    tell : callable
        Told what is being done, before every step.
    done : callable
        Told what was found, after every problem.
    deadline : float or None
        On `time.monotonic`: no problem is begun after it; those left are named in the report.

    Returns
    -------
    Report
        `report`, with the problems in the order asked for and, after them, those only the file has.
    """
    kept: dict[str, Compared] = {}
    if resume and file is not None and file.exists():
        old = read_report(file, report.kind)
        check_same(old, report, file)
        kept = {result.name: result for result in old.problems}
    asked = [one.name for one in problems]
    report.left_out = []
    for number, problem in enumerate(problems, 1):
        if problem.name not in kept and deadline is not None and time.monotonic() > deadline:
            report.left_out.append(problem.name)
        elif problem.name not in kept:
            place = f"{problem.name} ({number} of {len(problems)})"
            kept[problem.name] = run(problem, lambda step, place=place: tell(f"{place}: {step}"))  # type: ignore[misc]
            done(kept[problem.name])
        report.problems = [kept[name] for name in sorted(kept, key=lambda name: _place(name, asked))]
        if file is not None:
            write_report(report, file)
    return report


def _place(name: str, asked: list[str]) -> int:
    return asked.index(name) if name in asked else len(asked)

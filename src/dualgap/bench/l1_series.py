"""The comparison of L1 machines in the form of the others, so that ``dualgap bench all`` can show it beside them.

What is run and how it is judged is said in `dualgap.bench.l1`: one peer a loss, processor time with one thread, errors
against a certified lower bound. There is a common gap and no table at default tolerances.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualgap.bench import series
from dualgap.bench.packages import OURS, chosen
from dualgap.bench.results import Compared, Comparison, Runs

if TYPE_CHECKING:
    from dualgap.bench.contest import ContestSettings
    from dualgap.bench.results import Report

_HOME = "dualgap.bench.l1"
# Weight of the losses, as that comparison has it unless told otherwise.
_C = 1.0
_BUNDLED = "breast_cancer"


def available() -> bool:
    """Whether this installation has the comparison."""
    return importlib.util.find_spec(_HOME) is not None


def _home() -> Any:
    return importlib.import_module(_HOME)


@dataclass(frozen=True)
class L1Problem:
    """One line of the comparison: a data set and a loss."""

    data: str
    loss: str

    @property
    def name(self) -> str:
        """How the command line selects it."""
        return f"l1_{self.data}_{self.loss}"

    @property
    def file(self) -> str:
        """The file it needs; empty where it needs none."""
        return "" if self.data == _BUNDLED else self.data


def known() -> dict[str, L1Problem]:
    """All problems by name; none where there is no such comparison."""
    if not available():
        return {}
    home = _home()
    return {one.name: one for loss in home.LOSSES for data in home.SETS for one in [L1Problem(data, loss)]}


def select(names: list[str]) -> list[L1Problem]:
    """The problems of these names, in the order of the table; the usual ones for an empty list."""
    problems = known()
    if not names:
        return [one for one in problems.values() if one.data in _home().USUAL] if problems else []
    return [problems[name] for name in chosen(names, problems, "problem")]


def run_all(problems: Sequence[L1Problem], report: Report, settings: ContestSettings, **how: Any) -> Report:
    """Run problems one after the other; see `series.run_all`."""
    return series.run_all(problems, report, lambda problem, tell: run_problem(problem, settings, tell=tell), **how)


def run_problem(
    problem: L1Problem, settings: ContestSettings, *, tell: Callable[[str], None] = lambda step: None
) -> Compared:
    """Run one problem: dualgap and the peer of its loss, both to the gap."""
    assert settings.gap is not None  # there is nothing else to compare at
    home = _home()
    found = home.compare(
        problem.data, problem.loss, home.L1Settings(_C, settings.gap, settings.repeat, settings.limit), tell
    )
    ours, peer = _runs(found.ours, settings.gap), _runs(found.peer, settings.gap)
    if peer.reason:
        peer.stopped = found.peer.cpu if math.isfinite(found.peer.cpu) else None
    title = f"L1 {problem.loss} C={_C:g}"
    return Compared(problem.name, title, found.rows, found.columns, tight=[Comparison(peer, ours)])


def _runs(run: Any, gap: float) -> Runs:
    """What one library did, with its processor time for a time."""
    name = OURS if run.library == OURS else run.library
    reason = "" if run.error <= gap else run.note or f"its error stays at {run.error:.1e}"
    goal = {} if run.tol is None else {"tol": run.tol}
    times, gaps = ([], []) if math.isnan(run.error) else ([run.cpu], [run.error])
    return Runs(name, "float64", goal, times, gaps, support=run.features, reason=reason)

"""The comparison of linear machines: every peer on every problem, and dualgap at the accuracy that the peer reached.

A tight run of dualgap comes first, outside all tables: its certified dual objective is what the weights of everybody
are measured by (see `linear_scoring`). How the fits then follow each other is said in `dualgap.bench.contest`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualgap.bench import series
from dualgap.bench.contest import Contest, ContestSettings
from dualgap.bench.linear_data import read_data
from dualgap.bench.linear_engine import REFERENCE
from dualgap.bench.linear_libraries import LIBRARIES, PEERS, LinearAssignment
from dualgap.bench.linear_scoring import LinearJudge
from dualgap.bench.packages import OURS
from dualgap.bench.results import Comparison, LinearResult, Runs
from dualgap.bench.samples import write_samples
from dualgap.bench.worker import OverLimitError, Worker, WorkerError

if TYPE_CHECKING:
    from dualgap.bench.linear_problems import LinearMachine, LinearProblem
    from dualgap.bench.results import Report

# The gap of the reference: a thousandth of what is asked of everybody in the second table.
_REFERENCE = 1e-9
# The reference ends by itself at the limit of time, at its next look at the clock and with a certificate to compute:
# its process is given so many times the limit, and seconds more, before it is ended from outside.
_PATIENCE, _GRACE = 2.0, 60.0
# What dualgap is asked for where no peer can be asked.
_ALONE = {"gap_tol": 1e-3}
# Tolerances are tightened by steps of ten at most: one too tight by far may cost the whole limit of time.
_STEP = 10.0
# Whose spread over seeds is measured: LIBLINEAR takes a seed through scikit-learn only.
_SEEDED_PEER = "scikit-learn"


@dataclass(frozen=True)
class LinearSettings(ContestSettings):
    """How the comparison is run.

    Attributes
    ----------
    intercept : bool
        Whether all machines have an intercept that is penalised.
    seeds : int
        Fits, each from another seed, for the spread of times; 0 for none.
    quick : bool
        Whether the generated set is the small one.
    """

    peers: tuple[str, ...] = PEERS
    intercept: bool = False
    seeds: int = 0
    quick: bool = False

    def check(self) -> None:
        """Refuse values without meaning, in the words of the command line."""
        super().check()
        if self.seeds < 0:
            raise ValueError(f"--seeds {self.seeds}: must not be negative.")
        if self.seeds and self.quick:
            raise ValueError("--seeds needs the table at equal gaps, which --quick leaves out; drop one of them.")


def run_all(problems: list[LinearProblem], report: Report, settings: LinearSettings, **how: Any) -> Report:
    """Run problems one after the other; see `series.run_all`."""
    return series.run_all(problems, report, lambda problem, tell: run_problem(problem, settings, tell=tell), **how)


def run_problem(
    problem: LinearProblem,
    settings: LinearSettings,
    *,
    tell: Callable[[str], None] = lambda step: None,
    launch: Callable[[LinearAssignment], Any] = Worker,
) -> LinearResult:
    """Run one problem: the reference, the peers at their default tolerance, then everybody at a common gap."""
    tell("reading the data")
    X, y = read_data(problem.data, settings.quick)
    machine, precision = problem.machine(settings.intercept), str(X.dtype)
    nonzeros = int(X.nnz) if hasattr(X, "nnz") else int(X.size)
    result = LinearResult(
        problem.name, problem.title(settings.intercept), X.shape[0], X.shape[1], precision=precision, nonzeros=nonzeros
    )
    judge = LinearJudge(X, y, machine)
    with tempfile.TemporaryDirectory(prefix="dualgap_bench_") as folder:
        write_samples(Path(folder), X, y, (precision,))
        contest = Contest(
            settings,
            {precision: judge},
            partial(_assignment, machine, Path(folder), settings.threads),
            _ALONE,
            raised={name: LIBRARIES[name].raised() for name in settings.peers},
            longest_step=_STEP,
            tell=tell,
            launch=launch,
        )
        with contest:
            rivals = _rivals(settings, machine, precision)
            try:
                result.reference = _refer(contest, judge, precision)
            except (OverLimitError, WorkerError) as error:
                result.default = _nobody(rivals, f"there is no reference: {error}")
                return result
            result.default = contest.at_default(rivals)
            if settings.gap is not None and result.default:
                result.tight = contest.at_gap(settings.gap, result.default)
            if settings.seeds and problem.seeded:
                result.spread = _spread(contest, result.tight, settings.seeds)
            result.warm_up, result.history = contest.warm_up, contest.history
    return result


def _assignment(machine: LinearMachine, folder: Path, threads: int, library: str, precision: str) -> LinearAssignment:
    return LinearAssignment(library, precision, machine, folder, threads)


def _rivals(settings: LinearSettings, machine: LinearMachine, precision: str) -> list[Runs]:
    """The peers at their default tolerance, those that cannot take part with the reason."""
    rivals = []
    for name in settings.peers:
        reason = LIBRARIES[name].absence(machine)
        rivals.append(Runs(name, precision, {} if reason else dict(LIBRARIES[name].goal), reason=reason))
    return rivals


def _refer(contest: Contest, judge: LinearJudge, precision: str) -> dict[str, float]:
    """The tight run that everybody is measured by; one that ends short of its goal is still a bound."""
    contest.tell(f"the reference, gap {_REFERENCE:g}")
    limit = contest.settings.limit
    goal = {"gap_tol": _REFERENCE, "time_limit": limit, REFERENCE: 1.0}
    answer = contest.answer(OURS, precision, goal, _PATIENCE * limit + _GRACE)
    certificate = judge.refer_to(answer.solution)
    return {"dual": certificate.dual, "gap": certificate.relative_gap, "seconds": answer.seconds}


def _nobody(rivals: list[Runs], reason: str) -> list[Comparison]:
    """Comparisons without any run."""
    ours = [Runs(OURS, rival.precision, reason=reason) for rival in rivals]
    for rival in rivals:
        rival.goal, rival.reason = {}, rival.reason or reason
    return [Comparison(rival, mine) for rival, mine in zip(rivals, ours, strict=True)]


def _spread(contest: Contest, tight: list[Comparison], seeds: int) -> list[Runs]:
    """The settings that reached the common gap once more, from one seed after the other, in turn."""
    settled = {}
    for comparison in tight:
        settled[OURS] = comparison.ours
        if comparison.peer.library == _SEEDED_PEER:
            settled[_SEEDED_PEER] = comparison.peer
    spread = [Runs(one.library, one.precision, dict(one.goal), reason=one.reason) for one in settled.values()]
    for seed in range(seeds):
        for runs in spread:
            if not runs.reason:
                contest.fit(runs, seed=seed)
    return spread

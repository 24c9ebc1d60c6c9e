"""The comparison of kernel machines: every peer on every problem, and dualgap at the gap that the peer reached.

The order of fits is peer, dualgap, peer, dualgap, ..., each library in a process of its own. What is timed is the fit
alone. The gaps are computed here, after the clock has stopped, by the same function for everybody.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.floor import entry_nanoseconds, floor, product_nanoseconds
from dualgap.bench.goals import loosest_tolerance, merged
from dualgap.bench.libraries import LIBRARIES, OURS, PEERS
from dualgap.bench.problems import read_problem
from dualgap.bench.results import Comparison, ProblemResult, Report, Runs, check_same, read_report, write_report
from dualgap.bench.scoring import Judge
from dualgap.bench.worker import Assignment, OverLimitError, Worker, WorkerError, write_samples

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from dualgap.bench.problems import Problem
    from dualgap.bench.worker import Answer

# What all peers stop at unless told otherwise.
DEFAULT_TOL = 1e-3
# dualgap is asked for a little less than the peer's gap, so that it is never the looser of the two.
_BELOW = 0.98
# A solution that loses accuracy on its way to the judge (models of nu-SVC are published divided by their margin) is
# asked for with half the goal, which is given up after so many times or when the judge's gap does not fall by a tenth.
_HALVINGS, _FALLING = 4, 0.9
_PRECISIONS = ("float64", "float32")


@dataclass(frozen=True)
class Settings:
    """How the comparison is run.

    Attributes
    ----------
    cache_size : float
        Megabytes for kernel values, the same for all.
    repeat : int
        Fits of each setting; the median counts.
    gap : float or None
        Relative gap of the second table, None for no such table.
    limit : float
        Seconds after which a fit is ended.
    memory : bool
        Whether to measure dualgap's peak memory in processes of their own.
    threads : int
        Threads of those who have any.
    peers : tuple of str
        Who is compared with.
    """

    cache_size: float = 4000.0
    repeat: int = 3
    gap: float | None = 1e-6
    limit: float = 300.0
    memory: bool = False
    threads: int = 1
    peers: tuple[str, ...] = PEERS

    def check(self) -> None:
        """Refuse values without meaning, in the words of the command line."""
        for name, value in (("--repeat", self.repeat), ("--cache-size", self.cache_size), ("--limit", self.limit)):
            if not value > 0:
                raise ValueError(f"{name} {value:g}: must be positive.")
        if self.gap is not None and not 0.0 < self.gap < 1.0:
            raise ValueError(f"--gap {self.gap:g}: must be between 0 and 1.")


def run_all(
    problems: list[Problem],
    report: Report,
    settings: Settings,
    *,
    file: Path | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    done: Callable[[ProblemResult], None] = lambda result: None,
) -> Report:
    """Run problems one after the other; the file is complete after each of them.

    Parameters
    ----------
    problems : list of Problem
        What to run.
    report : Report
        Machine, versions and settings; the problems of the result.
    settings : Settings
        How to run it.
    file : Path or None
        Where results are kept.
    resume : bool
        Whether problems that the file holds are taken from there.
    tell : callable
        Told what is being done, before every step.
    done : callable
        Told what was found, after every problem.

    Returns
    -------
    Report
        `report`, with the problems in the order asked for and, after them, those only the file has.
    """
    kept: dict[str, ProblemResult] = {}
    if resume and file is not None and file.exists():
        old = read_report(file)
        check_same(old, report, file)
        kept = {result.name: result for result in old.problems}
    for number, problem in enumerate(problems, 1):
        if problem.name not in kept:
            place = f"{problem.name} ({number} of {len(problems)})"
            kept[problem.name] = run_problem(problem, settings, tell=lambda step, place=place: tell(f"{place}: {step}"))  # type: ignore[misc]
            done(kept[problem.name])
        asked = [one.name for one in problems]
        report.problems = [kept[name] for name in sorted(kept, key=lambda name: _place(name, asked))]
        if file is not None:
            write_report(report, file)
    return report


def _place(name: str, asked: list[str]) -> int:
    return asked.index(name) if name in asked else len(asked)


def run_problem(
    problem: Problem,
    settings: Settings,
    *,
    tell: Callable[[str], None] = lambda step: None,
    launch: Callable[[Assignment], Any] = Worker,
) -> ProblemResult:
    """Run one problem: the peers at their default tolerance, then everybody at a common gap."""
    tell("reading the data")
    X, y = read_problem(problem)
    result = ProblemResult(
        problem.name, problem.title(), X.shape[0], X.shape[1], extra=problem.extra, remark=problem.remark
    )
    with _Contest(problem, X, y, settings, tell, launch) as contest:
        for precision in _PRECISIONS:
            found = _at_default(contest, precision)
            result.default += found
            if settings.gap is not None and found:
                result.tight += _at_gap(contest, precision, settings.gap, found)
        result.warm_up = contest.warm_up
        result.history = contest.history
        if settings.memory:
            result.memory = contest.memory(result)
        headline = result.headline()
        if headline is not None:
            tell("measuring what a kernel value costs")
            result.entry_nanoseconds = entry_nanoseconds(X, contest.machine.gamma)
            result.product_nanoseconds = product_nanoseconds(X)
            result.floor = floor(headline.entries, result.entry_nanoseconds)
    return result


def _rivals(contest: _Contest, precision: str) -> list[Runs]:
    """The peers for samples of this precision, those that cannot take part with the reason."""
    rivals = []
    for name in contest.settings.peers:
        if precision in LIBRARIES[name].precisions:
            rivals.append(Runs(name, precision, reason=LIBRARIES[name].absence(contest.machine.row)))
    return rivals


def _at_default(contest: _Contest, precision: str) -> list[Comparison]:
    """Peers at their default tolerance; dualgap at the gap each of them reached."""
    rivals = _rivals(contest, precision)
    if not rivals:
        return []
    for rival in rivals:
        if not rival.reason:
            rival.goal = {"tol": DEFAULT_TOL}
            contest.fit(rival)
    goals = merged([rival.gap for rival in rivals if rival.gap is not None])
    ours = {goal: contest.reach(precision, goal, _BELOW * goal) for goal in sorted(set(goals.values()))}
    if ours:
        comparisons = [
            Comparison(rival, Runs(OURS, precision) if rival.gap is None else ours[goals[rival.gap]])
            for rival in rivals
        ]
    else:
        # Nobody to be compared with: dualgap by itself, as a user would call it.
        alone = Runs(OURS, precision, {"tol": DEFAULT_TOL})
        contest.fit(alone)
        comparisons = [Comparison(rival, alone) for rival in rivals]
    _repeat(contest, comparisons)
    return comparisons


def _at_gap(contest: _Contest, precision: str, gap: float, default: list[Comparison]) -> list[Comparison]:
    """Everybody at the same gap: peers with the loosest tolerance that reaches it."""
    ours = contest.reach(precision, gap, gap)
    comparisons = [Comparison(_tightened(contest, comparison.peer, gap), ours) for comparison in default]
    _repeat(contest, comparisons)
    return comparisons


def _tightened(contest: _Contest, first: Runs, gap: float) -> Runs:
    """The runs of a peer with the loosest tolerance that reaches the gap."""
    if first.gap is None:
        return Runs(first.library, first.precision, reason=first.reason)
    tried = {DEFAULT_TOL: first}

    def gap_at(tol: float) -> float | str:
        runs = tried[tol] = Runs(first.library, first.precision, {"tol": tol})
        contest.fit(runs)
        return runs.reason if runs.gap is None else runs.gap

    found = loosest_tolerance(gap_at, gap, {DEFAULT_TOL: first.gap})
    if found.tol is None:
        return Runs(first.library, first.precision, reason=found.reason)
    return tried[found.tol]


def _repeat(contest: _Contest, comparisons: list[Comparison]) -> None:
    """The remaining fits, peers and dualgap in turn; one that several comparisons share is fitted once a round."""
    for _ in range(contest.settings.repeat - 1):
        fitted: list[Runs] = []
        for runs in (one for c in _by_goal(comparisons) for one in (c.peer, c.ours)):
            if runs.times and not runs.reason and not any(runs is other for other in fitted):
                if len(runs.times) < contest.settings.repeat:
                    contest.fit(runs)
                fitted.append(runs)


def _by_goal(comparisons: list[Comparison]) -> list[Comparison]:
    """Comparisons with the same runs of ours side by side."""
    return sorted(comparisons, key=lambda c: c.ours.goal.get("gap_tol", 0.0))


@dataclass
class _Contest:
    """One problem: its samples on disk, its judge, and the processes of the libraries."""

    problem: Problem
    X: NDArray[np.float64]
    y: NDArray[np.float64] | None
    settings: Settings
    tell: Callable[[str], None]
    launch: Callable[[Assignment], Any]
    warm_up: dict[str, float] = field(default_factory=dict)
    history: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.machine = self.problem.machine(*self.X.shape)
        # Each solution is judged on the samples its library was given: rounded ones are another problem.
        self.judges = {
            precision: Judge(self.X.astype(precision).astype(np.float64, copy=False), self.y, self.machine)
            for precision in _PRECISIONS
        }
        self.workers: dict[tuple[str, str], Any] = {}
        self._tightest: dict[str, float] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="dualgap_bench_")
        write_samples(Path(self._folder.name), self.X, self.y, _PRECISIONS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers.values():
            worker.close()
        self._folder.cleanup()

    def fit(self, runs: Runs) -> None:
        """Fit once more with the setting of `runs` and note time and gap there, or why there is none."""
        goal = ", ".join(f"{name}={value:.2g}" for name, value in runs.goal.items())
        self.tell(f"{runs.library} {runs.precision}, {goal}, run {len(runs.times) + 1}")
        key = (runs.library, runs.precision)
        try:
            answer = self._worker(*key).fit(runs.goal, self.settings.limit)
            self.tell(f"scoring {runs.library} {runs.precision}")
            score = self.judges[runs.precision].score(answer.solution)
        except (OverLimitError, WorkerError, ValueError) as error:
            runs.reason = str(error)
            # Whatever state it is in, the next setting starts with a process of its own.
            if key in self.workers:
                self.workers.pop(key).close()
            return
        runs.times.append(answer.seconds)
        runs.gaps.append(score.gap)
        runs.support, runs.entries = score.support, score.entries
        runs.repaired = max(runs.repaired, score.repaired)
        self._keep_history(runs, answer, score.gap)

    def reach(self, precision: str, gap: float, gap_tol: float) -> Runs:
        """Our first fit that the judge finds within `gap`, with the loosest of the goals tried."""
        reached = float("inf")
        for _ in range(_HALVINGS + 1):
            runs = Runs(OURS, precision, {"gap_tol": gap_tol})
            self.fit(runs)
            if runs.gap is None or runs.gap <= gap:
                return runs
            if runs.gap > _FALLING * reached:
                break
            reached, gap_tol = runs.gap, 0.5 * gap_tol
        runs.reason = f"its gap stays at {runs.gap:.1e}"
        return runs

    def memory(self, result: ProblemResult) -> dict[str, int]:
        """Bytes that a fresh process grows by in the headline's fit, by precision."""
        grown: dict[str, int] = {}
        for precision in _PRECISIONS:
            runs = result.headline(precision)
            if runs is None or runs.reason:
                continue
            self.tell(f"measuring memory, {precision}")
            # The others would not disturb, but their data is better not held meanwhile.
            worker = self.launch(self._assignment(OURS, precision))
            try:
                answer: Answer = worker.fit(runs.goal, self.settings.limit)
                if answer.grown is not None:
                    grown[precision] = answer.grown
            except (OverLimitError, WorkerError) as error:
                self.tell(f"no memory figure for {precision}: {error}")
            finally:
                worker.close()
        return grown

    def _worker(self, library: str, precision: str) -> Any:
        key = (library, precision)
        if key not in self.workers:
            self.workers[key] = self.launch(self._assignment(library, precision))
            self.warm_up.setdefault(f"{library} {precision}", self.workers[key].warm_up)
        return self.workers[key]

    def _assignment(self, library: str, precision: str) -> Assignment:
        folder = Path(self._folder.name)
        return Assignment(library, precision, self.machine, folder, self.settings.cache_size, self.settings.threads)

    def _keep_history(self, runs: Runs, answer: Answer, gap: float) -> None:
        """Keep the story of our tightest run, ended by what the judge says."""
        if runs.library == OURS and gap <= self._tightest.get(runs.precision, float("inf")):
            self._tightest[runs.precision] = gap
            self.history[runs.precision] = [*answer.solution.history, (answer.seconds, gap)]

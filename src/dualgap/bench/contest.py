"""A contest over one problem: peers at their default tolerance and at a common gap, and dualgap beside each of them.

The order of fits is peer, dualgap, peer, dualgap, ..., each library in a process of its own. What is timed is the fit
alone. The gaps are computed here, after the clock has stopped, by the same judge for everybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dualgap.bench import REPEAT
from dualgap.bench.goals import LONG_STEP, loosest_tolerance, merged
from dualgap.bench.packages import OURS
from dualgap.bench.results import Comparison, Runs
from dualgap.bench.worker import OverLimitError, Worker, WorkerError

if TYPE_CHECKING:
    from typing import Self

    from dualgap.bench.packages import Goal
    from dualgap.bench.scoring import Score
    from dualgap.bench.worker import Answer, Task

# dualgap is asked for a little less than the peer's gap, so that it is never the looser of the two.
_BELOW = 0.98
# A solution that loses accuracy on its way to the judge (models of nu-SVC are published divided by their margin) is
# asked for with half the goal, which is given up after so many times or when the judge's gap does not fall by a tenth.
_HALVINGS, _FALLING = 4, 0.9
# Fits of a peer that may be ended at the cap before its search for a tolerance is given up.
_CAPPED = 2


@dataclass(frozen=True)
class ContestSettings:
    """How a comparison is run.

    Attributes
    ----------
    repeat : int
        Fits of each setting; the median counts.
    gap : float or None
        Relative gap of the second table, None for no such table.
    limit : float
        Seconds after which a fit is ended.
    threads : int
        Threads of those who have any.
    peers : tuple of str
        Who is compared with.
    cap : float or None
        Where a common gap is to be reached, a peer's fit is ended after so many times dualgap's time.
    least : float
        Seconds that a peer's fit always gets, whatever the cap. Starting one can take two; more of them say more of
        peers that do not get there.
    brief : float or None
        Seconds that a peer's fit may take to be repeated; None where all are.
    """

    repeat: int = REPEAT
    gap: float | None = 1e-6
    limit: float = 300.0
    threads: int = 1
    peers: tuple[str, ...] = ()
    cap: float | None = 20.0
    least: float = 2.0
    brief: float | None = None

    def check(self) -> None:
        """Refuse values without meaning, in the words of the command line."""
        for name, value in self._positive().items():
            if not value > 0:
                raise ValueError(f"{name} {value:g}: must be positive.")
        if self.gap is not None and not 0.0 < self.gap < 1.0:
            raise ValueError(f"--gap {self.gap:g}: must be between 0 and 1.")

    def _positive(self) -> dict[str, float]:
        cap = {} if self.cap is None else {"--cap": self.cap}
        return {"--repeat": self.repeat, "--limit": self.limit, "--least": self.least, **cap}


@dataclass
class Contest:
    """One problem: its judges and the processes of the libraries.

    Attributes
    ----------
    settings : ContestSettings
        How it is run.
    judges : mapping
        By precision of the samples: an object whose ``score(solution)`` is a `Score`.
    assign : callable
        The task of a library for samples of a precision.
    alone : dict
        What dualgap is asked for where there is nobody to be compared with.
    raised : mapping
        By peer: what beside its tolerance changes where it is to reach a gap, such as its limit of iterations.
    longest_step : float
        The most that a peer's tolerance is divided by at once in the search for the one that reaches a gap.
    tell, launch : callable
        Told what is being done; starts the process of a task.
    warm_up, history : dict
        See `results.Compared`.
    """

    settings: ContestSettings
    judges: Mapping[str, Any]
    assign: Callable[[str, str], Task]
    alone: Goal
    raised: Mapping[str, Goal] = field(default_factory=dict)
    longest_step: float = LONG_STEP
    tell: Callable[[str], None] = lambda step: None
    launch: Callable[[Any], Any] = Worker
    warm_up: dict[str, float] = field(default_factory=dict)
    history: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _workers: dict[tuple[str, str], Any] = field(default_factory=dict)
    _tightest: dict[str, float] = field(default_factory=dict)
    # Whose fit was ended at the limit of time when its own tolerance was asked for.
    _over: set[tuple[str, str]] = field(default_factory=set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.close()

    def fit(self, runs: Runs, limit: float | None = None, **more: float) -> None:
        """Fit once more with the setting of `runs` (and `more`); note time and gap there, or why there is none."""
        asked = {**runs.goal, **more}
        goal = ", ".join(f"{name}={value:.2g}" for name, value in asked.items())
        self.tell(f"{runs.library} {runs.precision}, {goal}, run {len(runs.times) + 1}")
        try:
            answer = self.answer(runs.library, runs.precision, asked, self.settings.limit if limit is None else limit)
            self.tell(f"scoring {runs.library} {runs.precision}")
            score: Score = self.judges[runs.precision].score(answer.solution)
        except (OverLimitError, WorkerError, ValueError) as error:
            runs.reason = str(error)
            if isinstance(error, OverLimitError):
                runs.stopped = limit
                runs.saw(error.peak)
                if limit is None:
                    self._over.add((runs.library, runs.precision))
            self._dismiss(runs.library, runs.precision)
            return
        runs.add(answer, score)
        self._keep_history(runs, answer, score)

    def answer(self, library: str, precision: str, goal: Goal, limit: float) -> Answer:
        """What a library answers; its process is started where it is not there."""
        key = (library, precision)
        if key not in self._workers:
            self._workers[key] = self.launch(self.assign(library, precision))
            self.warm_up.setdefault(f"{library} {precision}", self._workers[key].warm_up)
        answer: Answer = self._workers[key].fit(goal, limit)
        return answer

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

    def at_default(self, rivals: list[Runs]) -> list[Comparison]:
        """Peers at the goal each comes with (or a reason not to run); dualgap at the gap each of them reached."""
        if not rivals:
            return []
        precision = rivals[0].precision
        for rival in rivals:
            if not rival.reason:
                self.fit(rival)
        goals = merged([rival.gap for rival in rivals if rival.gap is not None])
        ours = {goal: self.reach(precision, goal, _BELOW * goal) for goal in sorted(set(goals.values()))}
        if ours:
            comparisons = [
                Comparison(rival, Runs(OURS, precision) if rival.gap is None else ours[goals[rival.gap]])
                for rival in rivals
            ]
        else:
            # Nobody to be compared with: dualgap by itself, as a user would call it.
            alone = Runs(OURS, precision, dict(self.alone))
            self.fit(alone)
            comparisons = [Comparison(rival, alone) for rival in rivals]
        self._repeat(comparisons)
        return comparisons

    def at_gap(self, gap: float, default: list[Comparison]) -> list[Comparison]:
        """Everybody at the same gap: peers with the loosest tolerance that reaches it."""
        ours = self.reach(default[0].peer.precision, gap, gap)
        cap = self._cap(ours)
        comparisons = [Comparison(self._tightened(comparison.peer, gap, cap), ours) for comparison in default]
        self._repeat(comparisons)
        return comparisons

    def _cap(self, ours: Runs) -> float | None:
        """Seconds that a fit of a peer may take beside ours; None where only the limit of time counts."""
        if self.settings.cap is None or ours.seconds is None:
            return None
        cap = max(self.settings.cap * ours.seconds, self.settings.least)
        return cap if cap < self.settings.limit else None

    def _tightened(self, first: Runs, gap: float, cap: float | None) -> Runs:
        """The runs of a peer with the loosest tolerance that reaches the gap."""
        if first.gap is None:
            # Who is over the limit at its own tolerance is so at a tighter one.
            stopped = self.settings.limit if (first.library, first.precision) in self._over else None
            return Runs(first.library, first.precision, reason=first.reason, peak=first.peak, stopped=stopped)
        begin, raised = first.goal["tol"], self.raised.get(first.library, {})
        if cap is not None and first.gap > gap and first.seconds is not None and first.seconds > cap:
            # Whatever is tighter takes longer: there is no need to wait for it.
            return _given_up(first, first.seconds, begin)
        tried = {begin: first}

        def gap_at(tol: float) -> float | str | None:
            runs = tried[tol] = Runs(first.library, first.precision, {**first.goal, **raised, "tol": tol})
            self.fit(runs, cap)
            if runs.stopped is not None:
                return None
            return runs.reason if runs.gap is None else runs.gap

        if first.warning and raised and first.gap > gap:
            # It ran out of iterations: what its default tolerance leads to is not known yet.
            reached = gap_at(begin)
            if reached is None:
                return _given_up(first, cap, begin)
            if isinstance(reached, str):
                return Runs(first.library, first.precision, reason=f"{reached} at tol={begin:.1e}")
        known = {begin: tried[begin].gap or 0.0}
        found = loosest_tolerance(gap_at, gap, known, self.longest_step, _CAPPED)
        if found.capped is not None:
            return _given_up(first, cap, found.capped)
        if found.tol is None:
            return Runs(first.library, first.precision, reason=found.reason)
        return tried[found.tol]

    def _repeat(self, comparisons: list[Comparison]) -> None:
        """The remaining fits, peers and dualgap in turn; one that several comparisons share is fitted once a round.

        A peer's fit that takes long may be left at one (see `ContestSettings.brief`); ours beside it is repeated.
        """
        for _ in range(self.settings.repeat - 1):
            fitted: list[Runs] = []
            for runs in (one for c in _by_goal(comparisons) for one in (c.peer, c.ours)):
                if runs.times and not runs.reason and not any(runs is other for other in fitted):
                    slow = runs.library != OURS and runs.times[0] > (self.settings.brief or math.inf)
                    if len(runs.times) < self.settings.repeat and not slow:
                        self.fit(runs)
                    fitted.append(runs)

    def _dismiss(self, library: str, precision: str) -> None:
        """End a process: whatever state it is in, the next setting starts with one of its own."""
        worker = self._workers.pop((library, precision), None)
        if worker is not None:
            worker.close()

    def _keep_history(self, runs: Runs, answer: Answer, score: Score) -> None:
        """Keep the story of our tightest run, ended by what the judge says."""
        gap = score.gap if score.certified is None else score.certified
        if runs.library == OURS and gap <= self._tightest.get(runs.precision, float("inf")):
            self._tightest[runs.precision] = gap
            self.history[runs.precision] = [*answer.solution.history, (answer.seconds, gap)]


def _by_goal(comparisons: list[Comparison]) -> list[Comparison]:
    """Comparisons with the same runs of ours side by side."""
    return sorted(comparisons, key=lambda c: c.ours.goal.get("gap_tol", 0.0))


def _given_up(first: Runs, cap: float | None, tol: float) -> Runs:
    """What is known of a peer whose fit was ended at the cap, and that reached the gap with no looser tolerance."""
    assert cap is not None  # or nothing would have been ended
    reason = f"not there after {cap:.3g} s, at tol={tol:.1e}"
    return Runs(first.library, first.precision, reason=reason, stopped=cap)

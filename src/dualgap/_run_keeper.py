"""What a run is held by: the clock, limits, history, the checkpoint, and interrupts from outside."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import certify, judge
from dualgap.checkpoint import Slot, State
from dualgap.constraints import FEASIBLE, infeasibility
from dualgap.fingerprint import problem_fingerprint
from dualgap.handover import Handover
from dualgap.interrupts import Interrupts
from dualgap.pace import Pace, proof_seconds
from dualgap.result import Certificate, Event, History, Outcome, Snapshot, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Rounded kernel entries can send a solver in circles, its own objective falling for ever. A round therefore ends, to
# be looked at in exact arithmetic, when neither gap nor violation has fallen by a tenth in ten steps a variable
# (and at least 10 000 steps: small problems are cheap).
_FELL, _STEPS_EACH, _STEPS_LEAST = 0.9, 10, 10_000
# A KKT violation recomputed in float64 may differ from the solver's by the rounding of its sums.
_ROUNDING = 1e-9


@dataclass
class Control:
    """What a run answers to from outside, and where its state is kept.

    Attributes
    ----------
    interrupts : Interrupts
        Looked at between chunks.
    on_interrupt : {"raise", "keep"}
        Whether an interrupt raises (once the state is kept), or ends the run with the best solution so far.
    slot : Slot or None
        The run's part of a checkpoint.
    """

    interrupts: Interrupts = field(default_factory=Interrupts)
    on_interrupt: str = "raise"
    slot: Slot | None = None

    @property
    def patient(self) -> bool:
        """Whether there is something to do before an interrupt is answered."""
        return self.on_interrupt == "keep" or self.slot is not None

    def answer(self) -> None:
        """Raise, where a run has been interrupted that is not to be kept."""
        if self.interrupts.pending and self.on_interrupt == "raise":
            raise KeyboardInterrupt

    def asked(self, callback: Callable[[Event], bool | None] | None, event: Event) -> bool:
        """What the callback says; one that is interrupted has been told to stop like the run itself."""
        try:
            return callback is not None and callback(event) is True
        except KeyboardInterrupt:
            if not self.patient:
                raise
            self.interrupts.note(signal.SIGINT)
            return False


class Keeper:
    """Clock, limits and history; called by the solver between chunks."""

    def __init__(
        self,
        problem: DualQP,
        tol: float,
        gap_tol: float | None,
        time_limit: float | None,
        callback: Callable[[Event], bool | None] | None,
        control: Control,
    ) -> None:
        self.problem, self.tol, self.gap_tol = problem, tol, gap_tol
        self.pace, self.callback, self.control = Pace(time_limit), callback, control
        self.slot = control.slot
        self.history = History()
        self.reason: Status | None = None
        self.before = np.zeros(6, dtype=np.int64)
        self.totals = np.zeros(6, dtype=np.int64)
        self.eta: NDArray[np.float64] | None = None
        self.handover: Handover | None = None
        self.uncounted = 0  # iterations of a solver that has handed over, which are not the next one's
        self.window = max(_STEPS_LEAST, _STEPS_EACH * problem.n)
        self.earlier = 0.0  # seconds that runs before this one have spent
        self.key = "" if self.slot is None else problem_fingerprint(problem, data=False)
        self.began = time.perf_counter()

    def here(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.began

    def elapsed(self) -> float:
        """Seconds in all."""
        return self.earlier + self.here()

    def resume(self, start: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Where to start: where a checkpoint has come to, with its history and counts, or at `start`."""
        state = None if self.slot is None else self.slot.resume((self.problem.n,), self.key)
        if state is None or infeasibility(self.problem, state.point) > FEASIBLE:
            return start
        self.history, self.totals, self.earlier = state.history, state.counts.copy(), state.seconds
        self.uncounted = int(self.totals[0])
        return state.point

    def ended_before(
        self, start: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], Certificate, NDArray[np.float64], Status] | None:
        """The solution, where a checkpoint holds it: proved once more, or all that its limits allowed."""
        state = None if self.slot is None else self.slot.earlier
        if self.slot is None or state is None or not state.status or start is not state.point:
            return None
        certificate, eta = certify(self.problem, state.point)
        if self.holds(certificate):
            return state.point, certificate, eta, Status.CONVERGED
        return (state.point, certificate, eta, Status[state.status]) if self.slot.spent else None

    def keep(self, a: NDArray[np.float64], status: Status | None = None, *, write: bool = True) -> None:
        """Put the state into the checkpoint; one that was interrupted has not ended."""
        if self.slot is None or infeasibility(self.problem, a) > FEASIBLE:
            return
        over = status is not None and status is not Status.INTERRUPTED
        name = status.name if status is not None and over else ""
        history = History(list(self.history.events))
        state = State(np.array(a), self.totals.copy(), self.elapsed(), history, name, self.key)
        self.slot.keep(state, write=write)

    def answer(self, outcome: Outcome) -> None:
        """Raise where an interrupt is to be raised, once the state is kept."""
        if self.reason is Status.INTERRUPTED:
            self.keep(outcome.a)
            self.control.answer()

    def begin(self) -> None:
        """A round starts: counters of earlier rounds are kept apart, reasons to stop forgotten."""
        self.before = self.totals.copy()
        self.reason = None
        self.least_gap = self.least_violation = np.inf
        self.fell_at = int(self.before[0])

    def remaining(self, settings: Any) -> Any:
        """The settings with the iterations of earlier rounds taken off the limit."""
        counted = int(self.before[0]) - self.uncounted
        if settings.max_iter < 0 or counted == 0:
            return settings
        return replace(settings, max_iter=max(0, settings.max_iter - counted))

    def end(self, outcome: Outcome) -> None:
        self.totals[0] = self.before[0] + outcome.iterations

    def __call__(self, snapshot: Snapshot) -> bool:
        event = self._record(snapshot)
        self.history.events.append(event)
        if self.control.asked(self.callback, event):
            self.reason = Status.STOPPED
        elif self.control.interrupts.pending:
            self.reason = Status.INTERRUPTED
        elif self.gap_tol is not None and snapshot.gradient is not None and event.relative_gap <= self.gap_tol:
            self.reason = Status.CONVERGED
        elif self._late(event, snapshot):
            self.reason = Status.TIME_LIMIT
        elif self._in_circles(event) or self._to_be_left(event, snapshot):
            self.reason = Status.STALLED
        if self.reason is None and self.slot is not None and self.slot.due():
            self.keep(snapshot.a)
        return self.reason is not None

    def _late(self, event: Event, snapshot: Snapshot) -> bool:
        """Whether going on would mean to miss the time limit."""
        if self.pace.limit is None:
            return False
        return self.pace.over(self.here(), snapshot.ahead, proof_seconds(self.problem, event.n_support))

    def _in_circles(self, event: Event) -> bool:
        """Whether nothing has fallen for so long that the arithmetic must be looked at."""
        if event.relative_gap < _FELL * self.least_gap or event.violation < _FELL * self.least_violation:
            self.fell_at = event.iteration
        if event.relative_gap < self.least_gap:  # not where it is NaN
            self.least_gap = event.relative_gap
        if event.violation < self.least_violation:
            self.least_violation = event.violation
        return event.iteration - self.fell_at > self.window

    def _to_be_left(self, event: Event, snapshot: Snapshot) -> bool:
        off = event.relative_gap if self.gap_tol is not None else event.violation
        return self.handover is not None and self.handover(off, snapshot)

    def _record(self, snapshot: Snapshot) -> Event:
        s = snapshot
        counted = (s.iteration, s.kernel_evaluations, s.cache_hits, s.cache_misses, s.function_hits, s.function_misses)
        self.totals = self.before + np.array(counted, dtype=np.int64)
        primal = dual = gap = float("nan")
        if s.objective is not None and np.isfinite(s.gap):
            primal, dual, gap = s.primal, -s.objective, s.gap
        elif s.gradient is not None:
            believed, self.eta = judge(self.problem, s.a, s.gradient, self.eta, s.objective)
            primal, dual, gap = believed.primal, believed.dual, believed.relative_gap
        elif s.objective is not None:
            dual = -s.objective
        violation = s.violation
        if s.gradient is None and np.isnan(violation) and len(self.history):
            # A look between two gradients: what was last believed still is, but for the dual objective.
            last = self.history[-1]
            violation = last.violation
            if np.isnan(gap):
                primal, gap = last.primal, last.relative_gap
        iteration, evaluations, *rest = self.totals.tolist()
        support = int(np.count_nonzero(s.a != 0.0))  # of truth values, which takes a quarter of the time
        return Event(iteration, self.elapsed(), primal, dual, gap, violation, support, evaluations, *rest)

    def believed(self, outcome: Outcome) -> bool:
        """Whether this round ended because the goal was believed to be met (or nothing was left to do)."""
        return (self.reason or outcome.status) in (Status.CONVERGED, Status.STALLED)

    def distance(self, certificate: Certificate) -> float:
        """What must fall below the goal."""
        if certificate.note or self.gap_tol is None:
            return certificate.kkt_violation
        return certificate.relative_gap

    def holds(self, certificate: Certificate) -> bool:
        """Whether the certificate bears the goal out: for a feasible point."""
        off = self.distance(certificate)
        if certificate.infeasibility > FEASIBLE:
            return False
        if certificate.note or self.gap_tol is None:
            return bool(off <= self.tol * (1.0 + _ROUNDING))
        return bool(off <= self.gap_tol)

    def verdict(self, outcome: Outcome, certificate: Certificate) -> Status:
        """How the run ended, in the certificate's light."""
        if self.holds(certificate):
            return Status.CONVERGED if self.reason is not Status.STOPPED else Status.STOPPED
        claimed = self.reason or outcome.status
        return Status.STALLED if claimed is Status.CONVERGED else claimed

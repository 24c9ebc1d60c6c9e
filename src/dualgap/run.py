"""The one door: `solve` picks the solver, keeps clock, limits and history, and asks `certify` for the verdict."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import certify, judge
from dualgap.checkpoint import EVERY, Checkpoint, Slot, State
from dualgap.constraints import FEASIBLE, feasible_start, infeasibility
from dualgap.fingerprint import problem_fingerprint
from dualgap.handover import Handover
from dualgap.interrupts import ON_INTERRUPT, Interrupts
from dualgap.kernels.threads import one_blas_thread
from dualgap.result import Certificate, Event, History, Outcome, Result, Snapshot, Status
from dualgap.solvers import SOLVERS, dcd, mpd, newton

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# A run whose belief the certificate does not bear out goes on from the exact gradient. A round made progress if it
# halved the distance to the goal, or if the exact dual objective rose by more than rounding and by at least half of
# what the solver believed; three rounds in a row without are a stall.
_PATIENCE = 3
_HALVED, _ROSE = 0.5, 1e-14
# Rounded kernel entries can send a solver in circles, its own objective falling for ever. A round therefore ends, to
# be looked at in exact arithmetic, when neither gap nor violation has fallen by a tenth in ten steps a variable
# (and at least 10 000 steps: small problems are cheap).
_FELL, _STEPS_EACH, _STEPS_LEAST = 0.9, 10, 10_000
# Where the gap is the goal, the solver is led through KKT violations of 1e-2, 1e-3, ... until the gap is met; below
# 1e-13 of slopes that are of order one, float64 has nothing left to give.
_FIRST_TOL, _LAST_TOL = 1e-2, 1e-13
# The KKT violation at which a solver that has a polisher hands over: what pair steps reach quickly, and near enough to
# the solution for most variables to be at the bounds where they will stay.
_POLISH_FROM = 1e-2
# Variables up to which "auto" takes smo: 0.9 ms against 2.3 for 150, 3.8 against 4 for 500, 11 against 7 for 1000 easy
# ones; hard ones (C=100) 16 ms against 4 for 200.
FEW = 256
# Features up to which "auto" takes newton for a linear problem at once: its systems are then a matter of milliseconds.
FEW_FEATURES = 1000
# Of these, coordinate descent is tried first only where Newton's method is a matter of so many seconds: easy problems
# then take a few passes, and little is lost on the others. Squared losses take Newton's method five to ten steps.
_WORTH_A_TRY = 0.3
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


class UnsupportedProblemError(ValueError):
    """The solver asked for (or every solver) cannot take this problem; the message says why."""


class UnknownSolverError(ValueError):
    """There is no solver of this name."""


class NotCertifiedWarning(UserWarning):
    """A run ended short of what was asked for."""


def solve(
    problem: DualQP,
    solver: str = "auto",
    *,
    tol: float = 1e-3,
    gap_tol: float | None = None,
    max_iter: int = -1,
    time_limit: float | None = None,
    callback: Callable[[Event], bool | None] | None = None,
    start: NDArray[np.float64] | None = None,
    warn: bool = True,
    polish: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = EVERY,
    on_interrupt: str = "raise",
    **options: Any,
) -> Result:
    """Solve a dual quadratic program and certify the answer.

    Parameters
    ----------
    problem : DualQP
        From `formulations.build`, or written by hand.
    solver : str
        A name in `SOLVERS`, or "auto".
    tol : float
        KKT violation to reach, where `gap_tol` is None.
    gap_tol : float or None
        Relative duality gap to reach; takes the place of `tol`.
    max_iter : int
        Iterations at most, -1 for no limit. Where "auto" goes on from coordinate descent with Newton's method, it is
        each one's limit: passes that were not enough are no reason to give up.
    time_limit : float or None
        Seconds at most, looked at between chunks of compiled work. Like `max_iter` it is the limit of this call,
        whatever calls before it have spent on a checkpoint.
    callback : callable or None
        Called with an `Event` between chunks; returning True stops the run.
    start : ndarray or None
        A feasible point to start from.
    warn : bool
        Whether ending short of the goal is a warning beside the status.
    polish : str or None
        Name of a second solver, such as "rosen", that finishes what the first one begins: the first stops at a KKT
        violation of 1e-2 (or `tol`, where that is larger), and the second goes on from there to the goal.
    checkpoint : path-like or None
        A file to keep the state of the run in. Where it exists, the run goes on from there (`start` is then not used),
        and history and counts go on as well; a file that belongs to another problem is an error. The file stays.
    checkpoint_every : float
        Seconds between two writings of it, at least; the last one is at the end, or at an interrupt.
    on_interrupt : {"raise", "keep"}
        What Ctrl-C does: raise `KeyboardInterrupt`, or end the run with the best solution so far, certified.
    **options
        Settings of the (first) solver's own (see its ``Options``).

    Returns
    -------
    Result
        Solution, certificate, history and status. Ending short of the goal is a status and a
        `NotCertifiedWarning`, never silence.

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0]]); y = np.array([-1, -1, 1, 1])
    >>> gram = dualgap.make_gram(X, dualgap.Kernel("linear"))
    >>> result = dualgap.solve(dualgap.build("c_svc", gram, y, C=1.0), gap_tol=1e-9)
    >>> result.status.name, bool(result.certificate.relative_gap < 1e-9)
    ('CONVERGED', True)
    """
    if on_interrupt not in ON_INTERRUPT:
        raise ValueError(f"on_interrupt must be 'raise' or 'keep'; got {on_interrupt!r}.")
    file = None if checkpoint is None else Checkpoint(checkpoint, problem_fingerprint(problem), checkpoint_every)
    keyboard = on_interrupt == "keep" or file is not None
    with Interrupts(keyboard=keyboard, termination=file is not None) as interrupts:
        control = Control(interrupts, on_interrupt, None if file is None else file.slot(0))
        result = solve_under(
            control,
            problem,
            solver,
            tol=tol,
            gap_tol=gap_tol,
            max_iter=max_iter,
            time_limit=time_limit,
            callback=callback,
            start=start,
            polish=polish,
            **options,
        )
        control.answer()
        if file is not None and not interrupts.pending:
            file.finish()
    if warn and result.status not in (Status.CONVERGED, Status.STOPPED):
        aim = f"relative gap {gap_tol:g}" if gap_tol is not None else f"KKT violation {tol:g}"
        warnings.warn(
            f"{result.solver} ended short of {aim}: {result.status.message}. Certified: {result.certificate}.",
            NotCertifiedWarning,
            stacklevel=2,
        )
    return result


def solve_under(
    control: Control,
    problem: DualQP,
    solver: str = "auto",
    *,
    tol: float = 1e-3,
    gap_tol: float | None = None,
    max_iter: int = -1,
    time_limit: float | None = None,
    callback: Callable[[Event], bool | None] | None = None,
    start: NDArray[np.float64] | None = None,
    polish: str | None = None,
    **options: Any,
) -> Result:
    """`solve` as a part of something larger, which holds the checkpoint, listens to signals and gives warnings."""
    _check(tol, gap_tol, time_limit)
    if hasattr(problem.gram, "forget"):
        problem.gram.forget()
    name, module = choose(problem, solver)
    goal = {"tol": tol} if gap_tol is None else {"tol": _LAST_TOL, "first_tol": _FIRST_TOL, "gap_tol": gap_tol}
    settings = _settings(module, name, options, **goal, max_iter=max_iter)
    _check_support(problem, "solver", name, settings)
    if gap_tol is not None and getattr(settings, "function_cache", "all") == "free":
        raise ValueError("gap_tol needs the full gradient; use function_cache='all', or tol in place of gap_tol.")
    if start is not None and infeasibility(problem, np.asarray(start, dtype=np.float64)) > FEASIBLE:
        raise ValueError(
            f"start is not feasible: it misses the box or F'a = e by {infeasibility(problem, start):.2g}; pass a point "
            f"that satisfies both, or None."
        )
    keeper = _Keeper(problem, tol, gap_tol, time_limit, callback, control)
    start = keeper.resume(start)
    stages = [(name, module, settings)]
    if polish is None and solver == "auto" and name == "dcd":
        # Coordinate descent is the quickest way to a fair solution and may take for ever to a good one.
        keeper.handover = Handover(gap_tol or tol, lambda a: newton.expected_seconds(problem, a))
        stages.append(_polisher(problem, name, "newton", **goal, max_iter=max_iter))
    elif polish is not None:
        loose = _settings(module, name, options, tol=max(tol, _POLISH_FROM), max_iter=max_iter)
        stages = [(name, module, loose), _polisher(problem, name, polish, **goal, max_iter=max_iter)]
    ended = keeper.ended_before(start)
    if ended is None:
        name, outcome, certificate, eta = _through(problem, stages, keeper, start)
        status = keeper.verdict(outcome, certificate)
        a = outcome.a
        keeper.keep(a, status)
    else:
        a, certificate, eta, status = ended
    return Result(
        a=a,
        eta=eta,
        certificate=certificate,
        history=keeper.history,
        status=status,
        solver=name,
        iterations=int(keeper.totals[0]),
        kernel_evaluations=int(keeper.totals[1]),
        seconds=keeper.elapsed(),
    )


def choose(problem: DualQP, solver: str) -> tuple[str, ModuleType]:
    """The solver of this name; for "auto" the one that measurements recommend (see docs/solvers.md).

    Up to 256 variables the whole run takes a few milliseconds, less than the block solver needs to set out. A callable
    kernel is asked row by row for no more than pairs of variables need.
    """
    if solver != "auto":
        if solver not in SOLVERS:
            raise UnknownSolverError(f"Unknown solver {solver!r}; choose 'auto' or one of {', '.join(SOLVERS)}.")
        return solver, SOLVERS[solver]
    linear = _linear_choice(problem)
    if linear is not None:
        return linear, SOLVERS[linear]
    if problem.groups is None and mpd.supports(problem) is None:
        return "mpd", mpd
    refusals = []
    kernel = getattr(getattr(problem.gram, "source", None) or problem.gram, "kernel", None)
    row_by_row = problem.n <= FEW or (kernel is not None and kernel.name == "callable")
    for name, module in sorted(SOLVERS.items(), key=lambda item: item[0] != "smo") if row_by_row else SOLVERS.items():
        reason = module.supports(problem)
        if reason is None:
            return name, module
        refusals.append(str(reason))
    raise UnsupportedProblemError("No solver takes this problem: " + "; ".join(refusals) + ".")


def _linear_choice(problem: DualQP) -> str | None:
    """The solver of a linear problem, or None where there is no factor, or too few variables to care."""
    factor = getattr(problem.gram, "factor", None)
    if factor is None or (problem.n <= FEW and not hasattr(problem.gram, "operator")):
        return None
    if dcd.supports(problem) is not None:
        return "newton"
    if factor.shape[1] > FEW_FEATURES:
        return "dcd"
    hard = bool(np.all(problem.ridge > 0.0)) or newton.expected_seconds(problem, problem.lo) > _WORTH_A_TRY
    return "newton" if hard else "dcd"


def _check_support(problem: DualQP, role: str, name: str, settings: Any) -> None:
    reason = SOLVERS[name].supports(problem, settings)
    if reason is not None:
        raise UnsupportedProblemError(f"{role}={name!r} cannot take this problem: {reason}.")


def _polisher(problem: DualQP, first: str, polish: str, **common: Any) -> tuple[str, ModuleType, Any]:
    """The stage that goes on from another solver's point."""
    if polish not in SOLVERS:
        raise UnknownSolverError(f"Unknown solver {polish!r} for polish; choose one of {', '.join(SOLVERS)}.")
    if polish == first:
        raise ValueError(f"polish={polish!r} is the solver that runs first; name another one, or None.")
    settings = _settings(SOLVERS[polish], polish, {}, **common)
    _check_support(problem, "polish", polish, settings)
    return polish, SOLVERS[polish], settings


def _check(tol: float, gap_tol: float | None, time_limit: float | None) -> None:
    if not tol > 0:
        raise ValueError(f"tol must be a positive number; got {tol!r}.")
    if gap_tol is not None and not gap_tol > 0:
        raise ValueError(f"gap_tol must be a positive number or None; got {gap_tol!r}.")
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit must be a positive number of seconds or None; got {time_limit!r}.")


def _settings(module: ModuleType, name: str, options: dict[str, Any], **common: Any) -> Any:
    known = {f.name for f in fields(module.Options)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"Unknown option {unknown[0]!r} for solver {name!r}; it takes {', '.join(sorted(known))}.")
    return module.Options(**{key: value for key, value in common.items() if key in known}, **options)


def _through(
    problem: DualQP,
    stages: list[tuple[str, ModuleType, Any]],
    keeper: _Keeper,
    start: NDArray[np.float64] | None,
) -> tuple[str, Outcome, Certificate, NDArray[np.float64]]:
    """Run solvers one after the other, each from where the last one stopped; the last one until it is certified."""
    ran: list[str] = []
    for name, module, settings in stages:
        ran.append(name)
        # Solvers that share work among threads of their own say so: threads of BLAS would spin beside them for
        # milliseconds after every long product of two vectors.
        with one_blas_thread() if getattr(module, "OWN_THREADS", False) else nullcontext():
            if len(ran) == len(stages):
                return "+".join(ran), *_until_certified(problem, module, settings, keeper, start)
            outcome = _one_round(problem, module, settings, keeper, start)
            certificate, eta = certify(problem, outcome.a)
            handed_over = keeper.handover is not None and (keeper.reason or outcome.status) is Status.MAX_ITER
            if keeper.holds(certificate) or not (keeper.believed(outcome) or handed_over):  # the goal, or a limit first
                return "+".join(ran), outcome, certificate, eta
            if keeper.handover is not None:
                keeper.handover, keeper.uncounted = None, int(keeper.totals[0])
        start = outcome.a
    raise AssertionError("there is at least one stage")


def _one_round(
    problem: DualQP, module: ModuleType, settings: Any, keeper: _Keeper, start: NDArray[np.float64] | None
) -> Outcome:
    keeper.begin()
    if keeper.control.interrupts.pending:  # before this task has begun: one of several
        keeper.reason = Status.INTERRUPTED
        return Outcome(feasible_start(problem) if start is None else start, 0, Status.INTERRUPTED)
    outcome: Outcome = module.solve(problem, keeper.remaining(settings), keeper, start)
    keeper.end(outcome)
    keeper.answer(outcome)
    return outcome


def _until_certified(
    problem: DualQP, module: ModuleType, settings: Any, keeper: _Keeper, start: NDArray[np.float64] | None
) -> tuple[Outcome, Certificate, NDArray[np.float64]]:
    """Run the solver; where its claim does not hold in float64, run on from there."""
    eta: NDArray[np.float64] | None = None
    best, highest, patience = np.inf, -np.inf, _PATIENCE
    while True:
        outcome = _one_round(problem, module, settings, keeper, start)
        certificate, eta = certify(problem, outcome.a, eta)
        if certificate.note and keeper.gap_tol is not None and keeper.believed(outcome):
            # There is no gap to go by: what is left is the KKT violation of a stationary point.
            keeper.gap_tol, start = None, outcome.a
            settings = replace(settings, tol=keeper.tol)
            continue
        if not keeper.believed(outcome) or keeper.holds(certificate):
            return outcome, certificate, eta
        off = keeper.distance(certificate)
        rose, believed = certificate.dual - highest, keeper.history[-1].dual - highest
        progress = off < _HALVED * best or rose > max(_ROSE * abs(certificate.dual), _HALVED * believed)
        patience = _PATIENCE if progress else patience - 1
        if progress:
            keeper.window *= 2  # slow, but honest: look less often
        if patience == 0:
            sharper = module.sharper(settings) if hasattr(module, "sharper") else None
            if sharper is None:
                return outcome, certificate, eta
            settings, patience = sharper, _PATIENCE
        best, highest, start = min(best, off), max(highest, certificate.dual), outcome.a


class _Keeper:
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
        self.time_limit, self.callback, self.control = time_limit, callback, control
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
        elif self.gap_tol is not None and event.relative_gap <= self.gap_tol:
            self.reason = Status.CONVERGED
        elif self.time_limit is not None and self.here() >= self.time_limit:
            self.reason = Status.TIME_LIMIT
        elif self._in_circles(event) or self._to_be_left(event, snapshot):
            self.reason = Status.STALLED
        if self.reason is None and self.slot is not None and self.slot.due():
            self.keep(snapshot.a)
        return self.reason is not None

    def _in_circles(self, event: Event) -> bool:
        """Whether nothing has fallen for so long that the arithmetic must be looked at."""
        if event.relative_gap < _FELL * self.least_gap or event.violation < _FELL * self.least_violation:
            self.fell_at = event.iteration
        self.least_gap = np.fmin(self.least_gap, event.relative_gap)
        self.least_violation = np.fmin(self.least_violation, event.violation)
        return event.iteration - self.fell_at > self.window

    def _to_be_left(self, event: Event, snapshot: Snapshot) -> bool:
        off = event.relative_gap if self.gap_tol is not None else event.violation
        return self.handover is not None and self.handover(off, snapshot)

    def _record(self, snapshot: Snapshot) -> Event:
        s = snapshot
        counted = (s.iteration, s.kernel_evaluations, s.cache_hits, s.cache_misses, s.function_hits, s.function_misses)
        self.totals = self.before + np.array(counted, dtype=np.int64)
        primal = dual = gap = float("nan")
        if s.gradient is not None:
            believed, self.eta = judge(self.problem, s.a, s.gradient, self.eta, s.objective)
            primal, dual, gap = believed.primal, believed.dual, believed.relative_gap
        elif s.objective is not None:
            dual = -s.objective
        violation = s.violation
        if s.gradient is None and np.isnan(violation) and len(self.history):
            # A look between two gradients: what was last believed still is, but for the dual objective.
            last = self.history[-1]
            primal, gap, violation = last.primal, last.relative_gap, last.violation
        iteration, evaluations, *rest = (int(total) for total in self.totals)
        return Event(
            iteration, self.elapsed(), primal, dual, gap, violation, int(np.count_nonzero(s.a)), evaluations, *rest
        )

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

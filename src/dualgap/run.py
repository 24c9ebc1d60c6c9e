"""The one door: `solve` picks the solver, runs it under a `Keeper`, and asks `certify` for the verdict."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap._run_keeper import Control, Keeper
from dualgap.certificate import certify
from dualgap.checkpoint import EVERY, Checkpoint
from dualgap.constraints import FEASIBLE, feasible_start, infeasibility
from dualgap.fingerprint import problem_fingerprint
from dualgap.handover import Handover
from dualgap.interrupts import ON_INTERRUPT, Interrupts
from dualgap.kernels.threads import one_blas_thread
from dualgap.result import Certificate, Event, Outcome, Result, Status
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
# Of these, coordinate descent is tried first only where Newton's method is a matter of so many seconds, or of so many
# passes (sparse rows): easy problems then take a few passes, and little is lost on the others, which are told by their
# relative gap after these. Squared losses take Newton's method five to ten steps.
_WORTH_A_TRY, _WORTH_PASSES, _HOPELESS = 0.3, 20, 0.5


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
    offered: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    """`solve` as a part of something larger, which holds the checkpoint, listens to signals and gives warnings.

    `offered` are settings for whichever solver it will be: taken where it has them and `options` do not say.
    """
    _check(tol, gap_tol, time_limit)
    if hasattr(problem.gram, "forget"):
        problem.gram.forget()
    name, module = choose(problem, solver)
    goal = {"tol": tol} if gap_tol is None else {"tol": _LAST_TOL, "first_tol": _FIRST_TOL, "gap_tol": gap_tol}
    options = {**_taken(offered or {}, module, name), **options}
    settings = _settings(module, name, options, **goal, max_iter=max_iter)
    _check_support(problem, "solver", name, settings)
    if gap_tol is not None and getattr(settings, "function_cache", "all") == "free":
        raise ValueError("gap_tol needs the full gradient; use function_cache='all', or tol in place of gap_tol.")
    if start is not None and infeasibility(problem, np.asarray(start, dtype=np.float64)) > FEASIBLE:
        raise ValueError(
            f"start is not feasible: it misses the box or F'a = e by {infeasibility(problem, start):.2g}; pass a point "
            f"that satisfies both, or None."
        )
    keeper = Keeper(problem, tol, gap_tol, time_limit, callback, control)
    start = keeper.resume(start)
    stages = [(name, module, settings)]
    if polish is None and solver == "auto" and name == "dcd":
        # Coordinate descent is the quickest way to a fair solution and may take for ever to a good one.
        told = gap_tol is not None and problem.gram.factor.shape[1] <= FEW_FEATURES
        hopeless = _HOPELESS if told else np.inf
        expected = partial(newton.expected_seconds, problem)
        keeper.handover = Handover(gap_tol or tol, expected, hopeless, sure=told)
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
    if problem.curved:
        return "newton"
    expected = newton.expected_seconds(problem, problem.lo)
    tried = expected <= _WORTH_A_TRY or expected >= _WORTH_PASSES * dcd.pass_seconds(problem)
    return "dcd" if tried else "newton"


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


def _taken(offered: Mapping[str, Any], module: ModuleType, name: str) -> dict[str, Any]:
    """The settings that a solver has; threads of dcd are not reproducible, and only for who asks for them."""
    known = _option_names(module.Options) - ({"n_jobs"} if name == "dcd" else set())
    return {key: value for key, value in offered.items() if key in known}


@cache
def _option_names(options: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(options))


def _settings(module: ModuleType, name: str, options: dict[str, Any], **common: Any) -> Any:
    known = _option_names(module.Options)
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"Unknown option {unknown[0]!r} for solver {name!r}; it takes {', '.join(sorted(known))}.")
    return module.Options(**{key: value for key, value in common.items() if key in known}, **options)


def _through(
    problem: DualQP,
    stages: list[tuple[str, ModuleType, Any]],
    keeper: Keeper,
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
    problem: DualQP, module: ModuleType, settings: Any, keeper: Keeper, start: NDArray[np.float64] | None
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
    problem: DualQP, module: ModuleType, settings: Any, keeper: Keeper, start: NDArray[np.float64] | None
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

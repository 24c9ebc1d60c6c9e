"""One fit from beginning to end: signals, the checkpoint, what is shown, and no half-changed estimator.

A fit that raises, for whatever reason, leaves the estimator as it was: unfitted, or with the fit before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dualgap._run_keeper import Control
from dualgap.checkpoint import Checkpoint, State
from dualgap.estimators.progress import Display
from dualgap.estimators.sklearn_callbacks import Steps, with_callbacks
from dualgap.fingerprint import fingerprint
from dualgap.interrupts import Interrupts
from dualgap.result import History, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.result import Event

_Ended = TypeVar("_Ended", bound=Any)
_Fit = TypeVar("_Fit", bound=Callable[..., Any])

# Parameters that say what is solved; all others say how, and may change between an interruption and the next fit.
_PROBLEM = (
    "C",
    "nu",
    "epsilon",
    "kernel",
    "degree",
    "gamma",
    "coef0",
    "class_weight",
    "multi_class",
    "penalty",
    "loss",
    "fit_intercept",
    "intercept_scaling",
    "penalize_intercept",
    "approximation",
    "rank",
    "approximation_options",
)


class Session:
    """What lasts as long as a fit.

    Parameters
    ----------
    estimator : CertifiedEstimator
        What is fitted; its parameters have been validated.
    """

    def __init__(self, estimator: Any) -> None:
        e = self.estimator = estimator
        self.on_interrupt = str(e.on_interrupt)
        self.interrupts = Interrupts(
            keyboard=e.on_interrupt == "keep" or e.checkpoint is not None, termination=e.checkpoint is not None
        )
        self.file: Checkpoint | None = None
        goal = e._goal()
        self.display = Display(type(e).__name__, int(e.verbose), float(e.tol), goal) if e.verbose else None
        self.steps = Steps(e, float(e.tol), goal) if getattr(e, "_skl_callbacks", None) else None

    @property
    def watched(self) -> bool:
        """Whether somebody follows the tasks, who must then come one after another."""
        return self.estimator.callback is not None or self.display is not None or self.steps is not None

    def open(self, X: Any, weight: NDArray[np.float64], *targets: Any) -> None:
        """Open the checkpoint, where there is to be one: of these data and the estimator's parameters."""
        e = self.estimator
        if e.checkpoint is not None:
            problem = {name: getattr(e, name) for name in _PROBLEM if hasattr(e, name)}
            data = (X, weight, *targets, e._phi(X, len(weight)))
            self.file = Checkpoint(e.checkpoint, fingerprint(type(e).__name__, problem, *data))

    def expect(self, tasks: int) -> None:
        """So many tasks will be solved."""
        if self.display is not None:
            self.display.expect(tasks)
        if self.steps is not None:
            self.steps.expect(tasks)

    def control(self, number: int | None = None) -> Control:
        """What the run of a task answers to; one without a number is not kept in the checkpoint."""
        slot = None if self.file is None or number is None else self.file.slot(number)
        return Control(self.interrupts, self.on_interrupt, slot)

    def callback(self, number: int | None) -> Callable[[Event], bool | None] | None:
        """What the run of a task calls with its events; one without a number is not shown."""
        own = self.estimator.callback
        if number is None or (self.display is None and self.steps is None):
            return own  # type: ignore[no-any-return]

        def report(event: Event) -> bool:
            if self.display is not None:
                self.display.add(number, event)
            stop = self.steps is not None and self.steps.add(number, event)
            return (own is not None and own(event) is True) or stop

        return report

    def task(self, number: int, shape: tuple[int, ...]) -> Task:
        """The task of a solver that `run` does not know, with a point of this shape."""
        return Task(self, number, shape)

    def followed(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        """The method with scikit-learn's callbacks around it, where there are any."""
        if self.steps is None:
            return fit
        steps = self.steps

        @with_callbacks
        def with_steps(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return fit(estimator, *args, **kwargs)
            finally:
                steps.close()

        return with_steps  # type: ignore[no-any-return]

    def verdict(self) -> str:
        """The end of a fit in words, where somebody will read them."""
        e = self.estimator
        return "" if self.display is None else f"{e.status_.name.lower()}, {e.certificate_}"

    def end(self, verdict: str | None) -> None:
        """The fit is over: with this verdict, or None where it was cut off."""
        if self.display is not None:
            self.display.close(verdict)
        if verdict is not None and self.file is not None and not self.interrupts.pending:
            self.file.finish()


class Task:
    """Checkpoint, interrupts and history of a solver that does not run under `run.solve`.

    Parameters
    ----------
    session : Session
        The fit it is a part of.
    number : int
        Its place in the checkpoint.
    shape : tuple of int
        Of the point that is kept of it.
    """

    def __init__(self, session: Session, number: int, shape: tuple[int, ...]) -> None:
        self.control, self.own = session.control(number), session.callback(number)
        self.goal = session.estimator._goal()
        slot = self.control.slot
        self.earlier = (None if slot is None else slot.resume(shape)) or State(np.empty(0))
        self.start = self.earlier.point if self.earlier.point.shape == shape else None
        self.history = History(list(self.earlier.history.events))

    def callback(self, event: Event) -> bool:
        """What the solver calls: the user's callback, told of all runs so far; True where it is to stop."""
        iteration = event.iteration + int(self.earlier.counts[0])
        event = replace(event, iteration=iteration, seconds=event.seconds + self.earlier.seconds)
        self.history.events.append(event)
        return self.control.asked(self.own, event) or self.control.interrupts.pending

    def look(self, point: NDArray[np.float64]) -> None:
        """The solver is at this point, which is kept where it is time to."""
        slot = self.control.slot
        if slot is not None and slot.due() and len(self.history):
            last = self.history[-1]
            slot.keep(self._state(point, last.iteration, last.seconds))

    def _state(self, point: NDArray[np.float64], iteration: int, seconds: float, status: str = "") -> State:
        counts = self.earlier.counts.copy()
        counts[0] = iteration
        return State(np.array(point, dtype=np.float64), counts, seconds, History(list(self.history.events)), status)

    def ended(self, point: NDArray[np.float64], result: _Ended) -> _Ended:
        """The result with the runs before it counted in; raises where an interrupt is to be raised."""
        status = result.status
        if self.control.interrupts.pending and status is Status.STOPPED:
            met = result.certificate.relative_gap <= self.goal
            status = Status.CONVERGED if met else Status.INTERRUPTED
        iterations = result.iterations + int(self.earlier.counts[0])
        seconds = result.seconds + self.earlier.seconds
        if self.control.slot is not None:
            name = "" if status is Status.INTERRUPTED else status.name
            self.control.slot.keep(self._state(point, iterations, seconds, name))
        self.control.answer()
        return replace(result, status=status, iterations=iterations, seconds=seconds, history=self.history)


def controlled(fit: _Fit) -> _Fit:
    """A `fit` within a `Session`, which is `_session` of the estimator meanwhile; nothing changes where it raises."""

    @wraps(fit)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        session = self._session = Session(self)
        verdict = None
        try:
            with session.interrupts:
                try:
                    fitted = session.followed(fit)(self, *args, **kwargs)
                    session.control().answer()
                    verdict = session.verdict()
                finally:
                    session.end(verdict)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        del self._session
        return fitted

    return whole  # type: ignore[return-value]

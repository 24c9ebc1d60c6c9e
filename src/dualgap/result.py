"""What a run returns: plain data, no behaviour beyond small conveniences."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from math import nan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Status(Enum):
    """How a run ended; the value is the sentence a user reads."""

    CONVERGED = "the tolerance asked for was reached and the certificate bears it out"
    MAX_ITER = "the iteration limit was reached first; raise max_iter or loosen the tolerance"
    TIME_LIMIT = (
        "the time limit was reached first, or the next step would have gone beyond it; "
        "raise time_limit or loosen the tolerance"
    )
    STOPPED = "the callback asked to stop"
    INTERRUPTED = "it was interrupted, and the best solution so far is kept; fit again to go on"
    STALLED = (
        "no further progress is possible in this arithmetic; "
        "use float64 input, scale the features, or loosen the tolerance"
    )

    @property
    def message(self) -> str:
        """The sentence that says what happened and what to do about it."""
        return self.value


@dataclass(frozen=True)
class Certificate:
    """How good a solution is, recomputed in float64 from the solution alone.

    Attributes
    ----------
    primal, dual : float
        Objective of the SVM problem and of its dual; ``primal >= optimum >= dual``.
    gap : float
        ``primal - dual``, summed from non-negative terms (no cancellation).
    relative_gap : float
        ``gap / max(|primal|, |dual|, 1e-300)``.
    kkt_violation : float
        Largest violation of the optimality conditions (MPD paper, eq. 2, iii-v).
    infeasibility : float
        Largest ``|F'a - e|``, relative to the sums it is made of (at least 1).
    note : str
        Empty, or the reason why no gap exists (then the objectives and the gap are NaN).
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt_violation: float
    infeasibility: float
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return f"no duality gap: {self.note} (KKT violation {self.kkt_violation:.2e})"
        return (
            f"relative gap {self.relative_gap:.2e} "
            f"(primal {self.primal:.10g}, dual {self.dual:.10g}), "
            f"KKT violation {self.kkt_violation:.2e}, infeasibility {self.infeasibility:.1e}"
        )


@dataclass(frozen=True)
class Event:
    """One line of a run's history: what was believed at that moment.

    ``primal``, ``dual`` and ``relative_gap`` come from the solver's own running gradient; only the
    `Certificate` at the end is recomputed. ``violation`` is the solver's own stopping quantity.
    """

    iteration: int
    seconds: float
    primal: float
    dual: float
    relative_gap: float
    violation: float
    n_support: int
    kernel_evaluations: int
    cache_hits: int
    cache_misses: int
    function_hits: int
    function_misses: int


@dataclass
class History:
    """The events of a run, as columns (``history.column("relative_gap")``) or rows."""

    events: list[Event] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, position: int) -> Event:
        return self.events[position]

    def column(self, name: str) -> list[Any]:
        """One quantity over the whole run."""
        return [getattr(event, name) for event in self.events]

    def as_dict(self) -> dict[str, list[Any]]:
        """All columns, ready for JSON or a data frame."""
        return {f.name: self.column(f.name) for f in fields(Event)}


@dataclass(frozen=True)
class Snapshot:
    """What a solver tells between two compiled chunks; arrays are its own, to be read and not kept.

    ``gradient`` (``H a + f0``) is None where a solver keeps no full gradient, or has none at this moment (``violation``
    is then not a number); ``objective`` is the running value of ``a'Ha/2 + f0'a``, or None. While variables are set
    aside (shrinking) their gradient is that of the moment they left, which is good enough to believe a gap and never
    enough to certify one. ``effort`` is the work so far, counted and expressed in seconds, where a solver keeps count.
    ``primal`` is the primal objective of weights that a solver keeps beside ``a``, where they are not those of ``a``;
    ``gap`` the relative gap between these weights and ``objective``, where that is what a solver believes in. Without a
    gradient it is a gap on the way, which ends nothing.
    ``ahead`` is about how many seconds the next piece of work takes, where it is long and cannot be broken off.
    """

    iteration: int
    a: NDArray[np.float64]
    gradient: NDArray[np.float64] | None
    objective: float | None
    violation: float
    kernel_evaluations: int
    cache_hits: int = 0
    cache_misses: int = 0
    function_hits: int = 0
    function_misses: int = 0
    effort: float = nan
    primal: float = nan
    gap: float = nan
    ahead: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What a solver hands back: a point of the box, how often it stepped and why it stopped."""

    a: NDArray[np.float64]
    iterations: int
    status: Status


@dataclass(frozen=True)
class Result:
    """A solution with its proof and its story.

    Attributes
    ----------
    a : ndarray
        The dual variables, feasible for the problem's box.
    eta : ndarray
        One multiplier per equality constraint (bias, rho, epsilon, free coefficients), chosen best.
    certificate, history, status, solver
        The judgement, the events, how it ended and which solver ran.
    iterations, kernel_evaluations : int
        As the solver counts them; the papers compare by these.
    seconds : float
        Wall time of the run, the certificate included.
    """

    a: NDArray[np.float64]
    eta: NDArray[np.float64]
    certificate: Certificate
    history: History
    status: Status
    solver: str
    iterations: int
    kernel_evaluations: int
    seconds: float

"""From a smoothed problem to the one that was meant: continuation over eps, and the smoothing method of multipliers.

A composite problem with hinges or absolute values is solved for a smoothing eps (SESOP paper, eqs. 22-24). What that
says of the problem without smoothing is measured after each round by its duality gap (`composite_certificate`); at the
smoothed optimum of p = q = 1 it is at most ``eps (d/4 + C n/8)`` for d features and n samples. Two schemes make it
small:

    continuation   divide eps, start again from the last solution
    multipliers    keep eps moderate and move each smoothed function to where the last solution stood against its kink

The second is Zibulevsky's smoothing method of multipliers. With ``psi(s + shift) - psi(shift)`` in place of ``psi(s)``
the slope at the kink is ``mu = psi'(shift)``, the multiplier. Its convex conjugate differs from that of psi by a
Bregman distance to mu, so that a round is one step of a proximal point method on the dual problem, and the update
``mu <- psi'(s + shift)`` is simply ``shift <- shift + s``. Rounds converge for a fixed eps, which is lowered only a
little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.composite_certificate import certify_composite
from dualgap.minimization import minimize_composite
from dualgap.operators import exact
from dualgap.result import Certificate, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

SCHEMES = ("multipliers", "continuation")
# eps from round to round. Multipliers converge without; a little helps, and more would only make rounds dearer.
_FALL = {"multipliers": 0.5, "continuation": 0.25}
# With multipliers eps does not fall below this share of the first.
_LEAST_SHARE = 1e-3
# Multipliers stay this far from their ends: |shift| <= 1e5 eps is a distance of 1e-10.
_FARTHEST = 1e5
# A round is solved until its gradient accounts for a tenth of the gap that the last one left.
_SHARE = 0.1
# Rounds in a row that bring neither a better point nor a better bound by a hundredth of the gap: rounding has won.
_PATIENCE = 5
_MESSAGES = {
    Status.CONVERGED: "the relative duality gap of the problem without smoothing is as small as was asked for",
    Status.MAX_ITER: "the limit of rounds or iterations was reached first; raise max_rounds, max_iter or gap_tol",
    Status.TIME_LIMIT: "the time limit was reached first; raise time_limit or gap_tol",
    Status.STOPPED: "the callback asked to stop",
    Status.STALLED: "no further progress is possible in this arithmetic; scale the columns of A, or raise gap_tol",
}


@dataclass(frozen=True)
class Round:
    """One round: smoothing, what it cost, and the best gap after it."""

    eps: float
    nit: int
    n_products: int
    seconds: float
    gradient_norm: float
    relative_gap: float


@dataclass(frozen=True)
class SmoothedResult:
    """The answer of `minimize_smoothed`.

    Attributes
    ----------
    x : ndarray
        The best point found, for the problem without smoothing.
    dual : ndarray
        u with the best lower bound, feasible; of a support vector machine the multipliers are ``a = -y u``.
    certificate : Certificate
        Primal, dual and gap of these two, without smoothing.
    nit, n_products : int
        Iterations and products of all rounds; each round's certificate takes two more, which are not counted.
    success, status, message
        How the run ended.
    rounds : list of Round
        The story.
    seconds : float
        Wall time.
    """

    x: NDArray[np.float64]
    dual: NDArray[np.float64]
    certificate: Certificate
    nit: int
    n_products: int
    success: bool
    status: Status
    message: str
    seconds: float
    rounds: list[Round] = field(repr=False)


def smoothed(problem: Composite, eps: float) -> Composite:
    """The problem with another eps; multipliers (slopes at the kinks) stay as they are."""
    return replace(problem, loss=_with_eps(problem.loss, eps), regulariser=_with_eps(problem.regulariser, eps))


def _with_eps(part: Any, eps: float) -> Any:
    if not hasattr(part, "kinks"):
        return part
    return replace(part, eps=eps, shift=part.shift * (eps / part.eps))  # a slope depends on shift / eps


def with_multipliers(problem: Composite, x: NDArray[np.float64], z: NDArray[np.float64]) -> Composite:
    """The problem with its multipliers brought up to date at x, ``z = Ax``: ``shift <- shift + s``."""
    return replace(
        problem,
        loss=_moved(problem.loss, z),
        regulariser=_moved(problem.regulariser, x[problem.penalised]),
    )


def _moved(part: Any, at: NDArray[np.float64]) -> Any:
    if not hasattr(part, "kinks"):
        return part
    most = _FARTHEST * part.eps
    return replace(part, shift=np.clip(part.shift + part.kinks(at), -most, most))


def minimize_smoothed(
    problem: Composite,
    x0: NDArray[np.float64] | None = None,
    *,
    gap_tol: float = 1e-4,
    scheme: str = "multipliers",
    method: str = "tn",
    max_rounds: int = 100,
    max_iter: int = 100_000,
    time_limit: float | None = None,
    callback: Callable[[Round], bool | None] | None = None,
    **options: Any,
) -> SmoothedResult:
    """Solve a composite problem without its smoothing, to a certified duality gap.

    Parameters
    ----------
    problem : Composite
        From `primal_svm`, say; its eps is that of the first round.
    x0 : ndarray or None
        Where to start.
    gap_tol : float
        Relative duality gap to reach.
    scheme : {"multipliers", "continuation"}
        The smoothing method of multipliers, or smaller and smaller eps.
    method : str
        Solver of the rounds, as in `minimize`. Small eps makes curvatures differ by 1/eps from coordinate to
        coordinate; "tn" bears that best.
    max_rounds, max_iter : int
        Rounds, and iterations of all rounds together, at most.
    time_limit : float or None
        Seconds at most.
    callback : callable or None
        Called with each `Round`; returning True stops the run.
    **options
        Settings of the solver's own.

    Returns
    -------
    SmoothedResult
        The best point, the best bound, and the certificate of both.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}; got {scheme!r}.")
    if not gap_tol > 0.0:
        raise ValueError(f"gap_tol must be a positive number; got {gap_tol!r}.")
    if max_rounds < 1 or max_iter < 1:
        raise ValueError("max_rounds and max_iter must be at least 1.")
    run = _Run(problem, gap_tol, time_limit)
    x = None if x0 is None else np.asarray(x0, dtype=np.float64)
    eps = first = _eps_of(problem)
    while True:
        answer = minimize_composite(
            problem,
            x,
            method,
            tol=run.inner_tolerance(),
            max_iter=max_iter - run.nit,
            time_limit=run.time_left(),
            **options,
        )
        x = answer.x
        z = np.asarray(exact(problem.operator).matvec(x), dtype=np.float64)
        run.judge(problem, x, z, eps, answer.nit, answer.n_products, answer.gradient_norm)
        status = run.status(max_rounds, max_iter)
        if callback is not None and callback(run.rounds[-1]) is True and status is not Status.CONVERGED:
            status = Status.STOPPED
        if status is not None:
            return run.result(status)
        if scheme == "multipliers":
            problem = with_multipliers(problem, x, z)
            eps = max(_FALL[scheme] * eps, _LEAST_SHARE * first)
        else:
            eps = _FALL[scheme] * eps
        problem = smoothed(problem, eps)


def _eps_of(problem: Composite) -> float:
    """The largest smoothing in the problem; 1 where there is none."""
    parts: tuple[Any, ...] = (problem.loss, problem.regulariser)
    return max((float(part.eps) for part in parts if hasattr(part, "kinks")), default=1.0)


class _Run:
    """The best point and the best bound so far, clock, counts and rounds."""

    def __init__(self, problem: Composite, gap_tol: float, time_limit: float | None) -> None:
        self.problem, self.gap_tol, self.time_limit = problem, gap_tol, time_limit
        self.began = time.perf_counter()
        self.rounds: list[Round] = []
        self.nit = self.n_products = 0
        self.primal, self.dual = np.inf, -np.inf
        self.idle = 0
        self.least_tolerance = np.inf

    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def time_left(self) -> float | None:
        # At least a moment, so that a round begins at all: its first look at the clock ends it.
        return None if self.time_limit is None else max(self.time_limit - self.elapsed(), 1e-9)

    def inner_tolerance(self) -> float:
        """The gradient that accounts for a share of the last gap.

        A slope that misses its place by g scales the dual by ``1/(1 + g/l1)``, a relative loss of about g / l1; with a
        quadratic term alone the loss is ``g^2 / (4 l2)``. A round that brought nothing is followed by a stricter one:
        in feature space the loss is ``g'K^-1 g / 4``, of which the norm of g says little.
        """
        gap = self.rounds[-1].relative_gap if self.rounds else 1.0
        regulariser: Any = self.problem.regulariser
        l1 = float(np.max(np.asarray(regulariser.l1)))
        if l1 > 0.0:
            wanted = _SHARE * gap * l1
        else:
            l2 = float(np.max(np.asarray(regulariser.l2))) or 1.0
            size = max(abs(self.primal), abs(self.dual)) if self.rounds else 1.0
            wanted = np.sqrt(_SHARE * gap * size * l2)
        self.least_tolerance = float(min(wanted, (_SHARE if self.idle else 1.0) * self.least_tolerance))
        return max(self.least_tolerance, 1e-14)

    def judge(
        self,
        problem: Composite,
        x: NDArray[np.float64],
        z: NDArray[np.float64],
        eps: float,
        nit: int,
        n_products: int,
        gradient_norm: float,
    ) -> None:
        """Certify the round's point by the round's own slopes, and keep what is best of each."""
        here, u = certify_composite(self.problem, x, problem.loss.gradient(z))
        before = self.primal - self.dual
        better_x, better_u = here.primal < self.primal, here.dual > self.dual
        if better_x:
            self.x, self.primal = x, here.primal
        if better_u:
            self.u, self.dual = u, here.dual
        if better_x and better_u:
            self.certificate = here
        else:
            self.certificate, _ = certify_composite(self.problem, self.x, self.u)
        self.idle = 0 if not self.rounds or self.primal - self.dual < 0.99 * before else self.idle + 1
        self.nit += nit
        self.n_products += n_products
        gap = self.certificate.relative_gap
        self.rounds.append(Round(eps, nit, n_products, self.elapsed(), gradient_norm, gap))

    def status(self, max_rounds: int, max_iter: int) -> Status | None:
        if self.certificate.relative_gap <= self.gap_tol:
            return Status.CONVERGED
        if self.time_limit is not None and self.elapsed() >= self.time_limit:
            return Status.TIME_LIMIT
        if len(self.rounds) >= max_rounds or self.nit >= max_iter:
            return Status.MAX_ITER
        return Status.STALLED if self.idle >= _PATIENCE else None

    def result(self, status: Status) -> SmoothedResult:
        return SmoothedResult(
            x=self.x,
            dual=self.u,
            certificate=self.certificate,
            nit=self.nit,
            n_products=self.n_products,
            success=status is Status.CONVERGED,
            status=status,
            message=_MESSAGES[status],
            seconds=self.elapsed(),
            rounds=self.rounds,
        )

"""What a machine trained on a low-rank matrix is worth for the kernel itself.

With ``K~ = G G'`` the projection of K onto a basis (`kernels.lowrank`), the problem over K~ is the problem over K with
its function f kept within the span of the basis. So a solution (a, eta) over K~ gives a point of both problems over K:

    primal   f = sum_j c_j k(basis_j, .), whose norm is c'K_bb c, and eta: its objective P, over all samples
    dual     a, or what is between it and a feasible point o of f = 0, where there is one:

        o + t (a - o),  0 <= t <= 1,   o = 0 where e = 0 and lo = 0 (C-SVC, eps-SVR), both variables of a point
                                       alike for nu-SVR; none for nu-SVC and the outlier models
        D(t) = -f0'o - t f0'(a - o) - t^2/2 b'Kb,      b_i = the signed variables of point i added up

P and D are computed from kernel values in float64, not from G. Were arithmetic exact, P would be the objective over K~,
and the gap over K that over K~ and ``1/2 b'(K - K~)b`` more (with t = 1).

b'Kb with s points in use takes s^2 kernel values. Where that is too many, the points are cut into k random blocks, and
the triangle inequality in the seminorm of the positive semidefinite ``R = K - K~`` bounds it rigorously:

    b'Kb = |G'b|^2 + b'Rb,      b'Rb <= (sum over blocks B of sqrt(b_B' R b_B))^2

for s^2/k kernel values; and ``b'Rb <= (sum_i |b_i| sqrt(R_ii))^2``, the same with blocks of one point, costs nothing.
The smaller is taken. Blocks of random points also give an unbiased estimate of ``b'Rb``, because each pair of points is
in one block with the same probability. `dual` always rests on the bound, `dual_estimate` on the estimate; with one
block both are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import indefinite
from dualgap.kernels.lowrank import LowRankGram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Kernel values spent on b'Kb: those of 50 000 points in use, some seconds of two threads for 50 features.
_KERNEL_VALUES = 2_500_000_000
# Seed of the random blocks: any would do, but it has to be the same every time.
_SEED = 0


@dataclass(frozen=True)
class Approximation:
    """A low-rank kernel matrix, and what was proved for the kernel itself.

    Attributes
    ----------
    method : str
        "sgma" or "rpcholesky".
    rank : int
        Number of basis functions.
    trace_error : float
        ``tr(K - K~) / tr(K)``.
    primal : float
        Objective of the fitted model for the true kernel, over the training samples.
    dual : float
        A lower bound of every model's objective for the true kernel.
    dual_estimate : float
        What `dual` may be expected to be with all kernel values computed: no proof. The same where it is exact.
    exact : bool
        Whether `dual` is the dual objective of the solution found; else a lower bound of it (many support vectors).
    note : str
        Empty, or why there is no gap (an indefinite kernel); the objectives are then NaN.
    """

    method: str
    rank: int
    trace_error: float
    primal: float
    dual: float
    dual_estimate: float
    exact: bool
    note: str = ""

    @property
    def true_gap(self) -> float:
        """Relative gap of the model for the true kernel, ``(primal - dual) / max(|primal|, |dual|)``.

        An upper bound of its relative distance from the optimum, in float64 as certificates are.
        """
        return _relative(self.primal, self.dual)

    @property
    def true_gap_estimate(self) -> float:
        """The same with the estimate of the dual objective: no proof."""
        return _relative(self.primal, self.dual_estimate)

    def __str__(self) -> str:
        gap = f"relative gap {'' if self.exact else 'at most '}{self.true_gap:.3g} for the true kernel"
        return f"{self.method}, rank {self.rank}, trace error {self.trace_error:.3g}, {self.note or gap}"


def assess(problem: DualQP, a: NDArray[np.float64], eta: NDArray[np.float64]) -> Approximation:
    """Judge a solution over K~ for the kernel itself.

    Parameters
    ----------
    problem : DualQP
        The problem that was solved; its matrix is a `LowRankGram`, which knows K.
    a, eta : ndarray
        The solution: a feasible point and its multipliers.

    Returns
    -------
    Approximation
    """
    gram = problem.gram
    if not isinstance(gram, LowRankGram):
        raise TypeError(f"assess takes a problem over a LowRankGram; got one over a {type(gram).__name__}.")
    coefficients = problem.on_points(a)
    note = indefinite(gram.kernel_gram, np.flatnonzero(coefficients))
    if note:
        return Approximation(gram.method, gram.rank, gram.trace_error, nan, nan, nan, False, note)
    primal = _primal(problem, gram, coefficients, eta)
    most, guess, exact = _quadratic(gram, coefficients)
    dual, estimate = (_dual(problem, a, eta, quadratic) for quadratic in (most, guess))
    return Approximation(gram.method, gram.rank, gram.trace_error, primal, dual, estimate, exact)


def combine(parts: Sequence[Approximation]) -> Approximation:
    """One statement for several independent problems over one matrix: that of their sum."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Approximation(
        first.method,
        first.rank,
        first.trace_error,
        sum(part.primal for part in parts),
        sum(part.dual for part in parts),
        sum(part.dual_estimate for part in parts),
        all(part.exact for part in parts),
        next((part.note for part in parts if part.note), ""),
    )


def _relative(primal: float, dual: float) -> float:
    """Rounding can leave a gap of 0 slightly negative."""
    gap = max(primal - dual, 0.0) if primal == primal else nan
    return gap / max(abs(primal), abs(dual), 1e-300)


def _primal(problem: DualQP, gram: LowRankGram, coefficients: NDArray[np.float64], eta: NDArray[np.float64]) -> float:
    """The objective of the expansion over the basis, in kernel values of K."""
    expansion = np.zeros(gram.n)
    expansion[gram.basis] = gram.expand(coefficients)
    values = gram.kernel_gram.exact(expansion)
    s = problem.sign * values[problem.index] + problem.f0 + problem.F @ eta
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.clip(-s / problem.ridge, problem.lo, problem.hi)
    t = np.where(problem.ridge > 0.0, inner, np.where(s < 0.0, problem.hi, problem.lo))
    losses = -(0.5 * problem.ridge * t * t + s * t)
    return float(0.5 * expansion @ values + problem.e @ eta + losses.sum())


def _dual(problem: DualQP, a: NDArray[np.float64], eta: NDArray[np.float64], quadratic: float) -> float:
    """The best D(t); ridges, which only rows with o = 0 have, belong to the quadratic term."""
    o, t = _flat(problem, a), 1.0
    curved, linear, constant = quadratic + float(problem.ridge @ (a * a)), -float(problem.f0 @ a), 0.0
    if o is not None:
        constant = -float(problem.f0 @ o)
        linear -= constant
    if o is not None and curved > 0.0:
        t = min(1.0, max(0.0, linear / curved))
    # To first order, what rounding has left of F'a - e; never in favour of the bound.
    missed = float(eta @ (problem.e - problem.F.T @ a)) if problem.k else 0.0
    return constant + t * linear - 0.5 * t * t * curved + min(missed, 0.0)


def _flat(problem: DualQP, a: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A feasible point whose function is 0."""
    if not np.any(problem.e) and not np.any(problem.lo):
        return np.zeros_like(a)
    if problem.formulation == "nu_svr":  # the same sums, and nothing left of their differences
        return np.tile(a.reshape(2, -1).mean(axis=0), 2)
    return None


def _quadratic(gram: LowRankGram, b: NDArray[np.float64]) -> tuple[float, float, bool]:
    """An upper bound of b'Kb, an unbiased estimate, and whether both are b'Kb itself."""
    used = np.flatnonzero(b)
    count = int(np.ceil(used.size**2 / _KERNEL_VALUES))
    if count <= 1:
        whole = _within(gram, b, used)
        return whole, whole, True
    projected = float(b @ gram.exact(b))
    pieces = np.array_split(np.random.default_rng(_SEED).permutation(used), count)
    blocks = np.array([_left(gram, b, np.sort(piece)) for piece in pieces])
    alone = float(np.sum(np.abs(b) * np.sqrt(gram.residual)))
    bound = min(float(np.sqrt(blocks).sum()), alone) ** 2
    # Pairs within a block, of all pairs; blocks differ by one point at most.
    own = float(np.sum(b * b * gram.residual))
    pairs = sum(piece.size * (piece.size - 1) for piece in pieces)
    estimate = own + (float(blocks.sum()) - own) * used.size * (used.size - 1) / max(pairs, 1)
    return projected + bound, projected + min(max(estimate, 0.0), bound), False


def _within(gram: LowRankGram, b: NDArray[np.float64], points: NDArray[np.intp]) -> float:
    """B'Kb over some points."""
    if points.size == 0:
        return 0.0
    part = np.zeros(gram.n)
    part[points] = b[points]
    return float(b[points] @ gram.kernel_gram.exact(part, points))


def _left(gram: LowRankGram, b: NDArray[np.float64], points: NDArray[np.intp]) -> float:
    """b'(K - K~)b over some points."""
    w = gram.factor[points].astype(np.float64).T @ b[points]
    return max(_within(gram, b, points) - float(w @ w), 0.0)

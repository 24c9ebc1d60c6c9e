"""Projections for `rosen`: the nearest point of a box on the equality constraints.

One question serves directions and points alike::

    nearest(z) = argmin |x - z|^2    subject to    lo <= x <= hi,    F'x = sums

whose solution is ``x = clip(z - F eta, lo, hi)`` with the multipliers eta that meet the sums.

* ``z = -gradient``, x zero but for the free variables: the paper's direction d. Where nothing clips, eta is the mean
  over the free variables that the paper prints.
* The same with variables at a bound allowed to leave it: the direction that releases as many bounds as can be released
  together. It is feasible and descends (minus the gradient is the sum of d and of a normal of the feasible set), and it
  is zero only at the optimum; no choice of multipliers by sign has these properties.
* z a point outside of the box: where a step ends that lets several variables reach their bounds.

Close to the optimum directions are many digits shorter than gradients. What is left of rounded sums is then projected
once more: a direction off the constraints descends by leaving them.

Constraints that fall apart into groups have one multiplier each, the zero of a decreasing piecewise linear function.
Coupled ones are met by Newton's method in k multipliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Passes over the variables at most: Newton's method on a piecewise linear function takes some five, and bisection,
# where that would cycle, has used up a float64 after this many.
_PASSES = 100
# A residual this small against the terms of its sum is rounding.
_ROUNDING = 4e-16
# Coupled constraints: Newton steps at most, lengths tried for each, by which factor the slope must fall, and how much
# longer the next length is while it has not.
_NEWTON_STEPS, _SEARCH, _FLATTER, _LONGER = 100, 100, 0.5, 4.0
# Least curvature added, relative to that of all variables, which keeps Newton's system solvable.
_LEAST_CURVATURE = 1e-12


class Constraints(Protocol):
    """The equality constraints over some of the variables."""

    def take(self, variables: NDArray[np.intp]) -> Constraints:
        """The same constraints over fewer variables."""

    def sums(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the constraints add up to."""

    def nearest(
        self,
        z: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        sums: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """The point of the box nearest to `z` with these sums (zero when None)."""


def constraints(problem: DualQP) -> Constraints:
    """The constraints of a problem over all of its variables."""
    groups = problem.groups
    if groups is None:
        return Coupled(problem.F)
    return Grouped(groups.scale, groups.group, groups.rhs.size)


def _held(
    x: NDArray[np.float64], lo: NDArray[np.float64], hi: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The box with those that are at a bound held there: rounding shall not move them."""
    inside = (x > lo) & (x < hi)
    return np.where(inside, lo, x), np.where(inside, hi, x)


@dataclass(frozen=True)
class Grouped:
    """Independent constraints, ``sum over i in g of scale_i x_i``."""

    scale: NDArray[np.float64]
    group: NDArray[np.int64]
    count: int

    def take(self, variables: NDArray[np.intp]) -> Grouped:
        """The same constraints over fewer variables."""
        return Grouped(self.scale[variables], self.group[variables], self.count)

    def sums(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each group adds up to."""
        tied = self.group >= 0
        sums = np.bincount(self.group[tied], self.scale[tied] * x[tied], self.count)
        return sums.astype(np.float64, copy=False)

    def nearest(
        self,
        z: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        sums: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """The point of the box nearest to `z` with these sums (zero when None)."""
        x = np.empty(z.size)
        sums = np.zeros(self.count) if sums is None else sums
        if not _nearest_of_groups(z, lo, hi, self.scale, self.group, sums, x):
            lo, hi = _held(x, lo, hi)
            _nearest_of_groups(x.copy(), lo, hi, self.scale, self.group, sums, x)
        return x


@nb.njit(cache=True, nogil=True)
def _nearest_of_groups(z, lo, hi, scale, group, sums, x):  # type: ignore[no-untyped-def]
    """Solve ``sum scale_i clip(z_i - scale_i theta, lo_i, hi_i) = sums`` for theta, all groups side by side.

    Newton's method, with the slope to the side on which the zero lies, kept between the signs seen so far. False where
    a sum is missed by more than the rounding of its terms: x is then less than z by so much that theta has not the
    digits for it.
    """
    count, n = sums.size, z.size
    theta = np.zeros(count)
    below, above = np.full(count, -np.inf), np.full(count, np.inf)
    off, terms, ahead, behind = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    after, before = np.empty(count), np.empty(count)
    going = np.ones(count, dtype=np.bool_)
    for _ in range(_PASSES):
        for g in range(count):
            off[g], terms[g], ahead[g], behind[g] = -sums[g], abs(sums[g]), 0.0, 0.0
            after[g], before[g] = np.inf, -np.inf
        for i in range(n):
            g = group[i]
            if g < 0:
                x[i] = min(max(z[i], lo[i]), hi[i])
                continue
            c = scale[i]
            at = z[i] - c * theta[g]
            x[i] = min(max(at, lo[i]), hi[i])
            off[g] += c * x[i]
            terms[g] += abs(c * x[i])
            if lo[i] >= hi[i]:
                continue
            # Whether x moves when theta grows (ahead) or falls (behind), and where it begins to move.
            first, last = (z[i] - hi[i]) / c, (z[i] - lo[i]) / c
            if c < 0.0:
                first, last = last, first
            if first <= theta[g] < last:
                ahead[g] += c * c
            if first < theta[g] <= last:
                behind[g] += c * c
            if first > theta[g]:
                after[g] = min(after[g], first)
            if last < theta[g]:
                before[g] = max(before[g], last)
        unfinished = False
        for g in range(count):
            if not going[g] or abs(off[g]) <= _ROUNDING * terms[g]:
                going[g] = False
                continue
            if off[g] > 0.0:
                below[g] = theta[g]
                step = theta[g] + off[g] / ahead[g] if ahead[g] > 0.0 else after[g]
            else:
                above[g] = theta[g]
                step = theta[g] + off[g] / behind[g] if behind[g] > 0.0 else before[g]
            if not below[g] < step < above[g] and below[g] > -np.inf and above[g] < np.inf:
                step = 0.5 * (below[g] + above[g])
            if step == theta[g] or not np.isfinite(step):  # to the last digit, or as near as the box allows
                going[g] = False
                continue
            theta[g] = step
            unfinished = True
        if not unfinished:
            break
    return np.all(np.abs(off) <= _ROUNDING * terms)


@dataclass(frozen=True)
class Coupled:
    """Constraints that do not fall apart: a column of F each."""

    F: NDArray[np.float64]

    def take(self, variables: NDArray[np.intp]) -> Coupled:
        """The same constraints over fewer variables."""
        return Coupled(self.F[variables])

    def sums(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``F'x``."""
        return self.F.T @ x

    def nearest(
        self,
        z: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        sums: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """The point of the box nearest to `z` with these sums (zero when None)."""
        x = np.empty(z.size)
        sums = np.zeros(self.F.shape[1]) if sums is None else sums
        if not _nearest_of_coupled(z, lo, hi, self.F, sums, x):
            _nearest_of_coupled(x.copy(), *_held(x, lo, hi), self.F, sums, x)
        return x


@nb.njit(cache=True, nogil=True)
def _nearest_of_coupled(z, lo, hi, F, sums, x):  # type: ignore[no-untyped-def]
    """Newton's method on the concave dual ``min over x of |x - z|^2/2 + eta'(F'x - sums)``; False as for groups."""
    n, k = F.shape
    eta, off, terms, size, squares = np.zeros(k), np.empty(k), np.empty(k), np.abs(sums), np.zeros(k)
    at, rate = z.copy(), np.empty(n)
    for i in range(n):
        for j in range(k):
            size[j] += abs(F[i, j] * z[i])
            squares[j] += F[i, j] * F[i, j]
    for _ in range(_NEWTON_STEPS):
        off[:], terms[:] = -sums, np.abs(sums)
        curvature = np.zeros((k, k))
        for i in range(n):
            x[i] = min(max(at[i], lo[i]), hi[i])
            # A variable on the verge of moving counts as moving: it does so for one of the two signs of a step.
            moving = lo[i] <= at[i] <= hi[i] and lo[i] < hi[i]
            for j in range(k):
                off[j] += F[i, j] * x[i]
                terms[j] += abs(F[i, j] * x[i])
                if moving:
                    for other in range(k):
                        curvature[j, other] += F[i, j] * F[i, other]
        # Of z - F eta no more is known than the digits of z.
        if np.all(np.abs(off) <= _ROUNDING * np.maximum(terms, size)):
            break
        # Where too few variables move for all multipliers, the rest is a gradient step; less so towards the end.
        missing = min(1.0, np.max(np.abs(off) / np.maximum(size, 1e-300)))
        for j in range(k):
            curvature[j, j] += max(missing, _LEAST_CURVATURE) * max(squares[j], 1e-300)
        step = np.linalg.solve(curvature, off)
        for i in range(n):
            rate[i] = 0.0
            for j in range(k):
                rate[i] += F[i, j] * step[j]
        length = _length(at, rate, lo, hi, np.sum(sums * step), np.sum(off * step))
        if length == 0.0:
            break
        eta += length * step
        for i in range(n):
            at[i] = z[i]
            for j in range(k):
                at[i] -= F[i, j] * eta[j]
    return np.all(np.abs(off) <= _ROUNDING * terms)


@nb.njit(cache=True, nogil=True)
def _length(at, rate, lo, hi, sums, slope):  # type: ignore[no-untyped-def]
    """How far to go: until the slope of the dual, which falls on the way, is small against that at the start.

    Slopes, because values differ by rounding alone long before the sums are met.
    """
    length, short, long = 1.0, 0.0, np.inf
    for _ in range(_SEARCH):
        there = -sums
        for i in range(at.size):
            there += rate[i] * min(max(at[i] - length * rate[i], lo[i]), hi[i])
        if abs(there) <= _FLATTER * slope:
            return length
        if there > 0.0:
            short = length
        else:
            long = length
        length = _LONGER * short if long == np.inf else 0.5 * (short + long)
    return short

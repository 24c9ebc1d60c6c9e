"""Proximal Newton method for the L1-SVM over a few columns, with losses that are quadratic in pieces.

With ``Z = diag(y) [X_W, 1]`` and ``t = 1 - Z w`` it solves, exactly::

    min  sum lambda |w| + sum h(t)        h'(t) = a(t) = clip(a0 + sigma t, 0, cap)

That is the squared hinge ``c max(0, t)^2`` for ``a0 = 0, sigma = 2c`` and no cap. With ``cap = c`` it is the hinge
smoothed about the multipliers a0: what a step of the proximal point method on its dual has to solve (`_l1_search`).

The loss is quadratic as long as the samples I with ``0 < a(t) < cap`` stay, so a Newton step is a lasso with the matrix
``H = Z_I' diag(sigma_I) Z_I``. That is solved by coordinate descent, which finds out which weights are zero, and by
Newton steps over the others with their signs kept, which find their values whatever the condition of H (a weight whose
sign would change is stopped at zero). Steps of the whole are halved until the objective falls. Once I, the zeros and
the signs are right, one step is the solution, so the last ones are exact up to rounding. Weights outside of the support
are 0 and not merely small.

A step costs H, O(n_I k^2) or less where Z is sparse, and a few factorisations of the support's part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap._l1_factor import factored, solved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap._l1_columns import DenseColumns, SparseColumns

# Sweeps of coordinate descent between two factorisations.
_SWEEPS = 150
# A weight waits as long as its violation is below this share of the largest in the sweep before.
_WAITS = 0.1
# More of them over a large support, its square divided by this: a sweep takes less and less of a factorisation.
_PER_SWEEP = 4000
# Weights stopped at zero before coordinate descent has another look at all; one, where the support is large: a
# factorisation takes longer then than the sweeps.
_DROPS, _LARGE = 3, 500
# Rounds in which weights are held at zero with one factorisation, and the most of them.
_STOPS, _MOST_STOPPED = 4, 30
# Rounds of both; a lasso that is not solved by then is solved well enough for a descent direction.
_LASSO_ROUNDS = 40
# A lasso is solved to this share of the violation wanted in the end, or of the present one where that is more: a larger
# share where that is far from optimal (v is relative to lambda, which is 1), since the samples inside change anyway.
_LASSO_SHARE, _FORCING, _FORCING_FAR, _FAR = 0.1, 0.03, 0.1, 0.5
# Not with so few columns, whose lassos cost next to nothing: well solved ones end at the same of several solutions.
_FEW_COLUMNS = 50
# A step that changed at most this share of the signs leaves a support that is nearly right. From there a Newton step
# over the support comes first, and so many sweeps look after it: cheaper than to approach the same by sweeps alone.
_FEW_CHANGES, _CHECKS = 0.03, 5
# H is brought up to date, not made anew, where at most this share of its samples are others: the rows that change are
# copied, and twice the operations a row are made.
_FEW_ROWS = 0.3
# Halvings of a step.
_HALVINGS = 12
# What is added to the diagonal of H, relative to its largest possible value: more after a step shorter than _SHORT,
# less after a whole one. Where most multipliers are at their bounds H is small and its step goes too far.
_SHORT, _DAMPING_STEP, _LEAST_DAMPING, _MOST_DAMPING = 0.3, 30.0, 1e-9, 1.0


@dataclass(frozen=True, eq=False)
class Pieces:
    """The loss: slope ``a(t) = clip(a0 + sigma t, 0, cap)``, one a sample."""

    a0: NDArray[np.float64]
    sigma: NDArray[np.float64]
    cap: NDArray[np.float64] | float = np.inf

    @cached_property
    def caps(self) -> NDArray[np.float64]:
        """The caps, one a sample."""
        return np.ascontiguousarray(np.broadcast_to(self.cap, self.sigma.shape), dtype=np.float64)

    def slope(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """``a(t)``."""
        return np.asarray(_slopes(self.a0, self.sigma, self.caps, t))

    def value(self, t: NDArray[np.float64]) -> float:
        """``sum h(t)``, with h as the largest of ``a t - (a - a0)^2 / (2 sigma)``."""
        # NumPy sums in pairs: the last steps are judged by the last digits.
        return float(np.sum(_values(self.a0, self.sigma, self.caps, t)))

    def curvature(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sigma of samples whose slope is inside, else 0."""
        return np.asarray(_curvatures(self.a0, self.sigma, self.caps, t))


@nb.njit(cache=True, nogil=True)
def _slopes(a0, sigma, cap, t):  # type: ignore[no-untyped-def]
    out = np.empty(t.size)
    for i in range(t.size):
        out[i] = min(max(a0[i] + sigma[i] * t[i], 0.0), cap[i])
    return out


@nb.njit(cache=True, nogil=True)
def _values(a0, sigma, cap, t):  # type: ignore[no-untyped-def]
    out = np.empty(t.size)
    for i in range(t.size):
        a = min(max(a0[i] + sigma[i] * t[i], 0.0), cap[i])
        moved = (a - a0[i]) ** 2 / (2.0 * sigma[i]) if sigma[i] > 0.0 else 0.0
        out[i] = a * t[i] - moved
    return out


@nb.njit(cache=True, nogil=True)
def _curvatures(a0, sigma, cap, t):  # type: ignore[no-untyped-def]
    out = np.zeros(t.size)
    for i in range(t.size):
        a = a0[i] + sigma[i] * t[i]
        if 0.0 < a < cap[i]:
            out[i] = sigma[i]
    return out


@dataclass(eq=False)
class Point:
    """Weights, ``t = 1 - Z w``, objective, steps taken, and the violation of the optimality conditions."""

    w: NDArray[np.float64]
    t: NDArray[np.float64]
    value: float
    iterations: int = 0
    violation: float = np.inf


def solve_pieces(
    Z: DenseColumns | SparseColumns,
    loss: Pieces,
    lam: NDArray[np.float64],
    w: NDArray[np.float64],
    tol: float,
    max_iter: int,
    stop: Callable[[], bool],
    damping: float = 0.0,
) -> Point:
    """Solve over the columns of Z until ``|Z'a|`` is within `tol` of what lambda allows.

    Parameters
    ----------
    Z : DenseColumns or SparseColumns
        Signed columns.
    loss : Pieces
        The loss.
    lam : ndarray
        Weights of the columns; 0 for a free bias.
    w : ndarray
        Where to start.
    tol, max_iter, stop
        The violation to reach, steps at most, and a question asked before each.
    damping : float
        Added to the diagonal of H in the first step, relative to its largest possible value.
    """
    t = 1.0 - Z.times(w)
    x = Point(w.copy(), t, loss.value(t) + float(np.dot(lam, np.abs(w))))
    diagonal = np.arange(w.size)
    settled, bent, H = False, np.empty(0), np.empty((0, 0))
    most: NDArray[np.float64] | None = None
    while True:
        pull = Z.back(loss.slope(x.t))
        x.violation = violation(pull, x.w, lam)
        if x.violation <= tol or x.iterations >= max_iter or stop():
            return x
        now = loss.curvature(x.t)
        if damping:
            most = Z.squares(loss.sigma) if most is None else most
            H, bent = Z.weighted_gram(now), np.empty(0)
            H[diagonal, diagonal] += damping * most
        else:
            H, bent = _brought_up(Z, H, bent, now), now
        few = w.size <= _FEW_COLUMNS
        share = 0.0 if settled or few else _FORCING_FAR if x.violation > _FAR else _FORCING
        goal = max(_LASSO_SHARE * tol, share * x.violation, 1e-14)
        target = _lasso(H, H @ x.w + pull, lam, x.w, goal, settled)
        support = np.count_nonzero(target)
        changes = np.count_nonzero(np.sign(target) != np.sign(x.w))
        settled = bool(support <= _LARGE and changes <= _FEW_CHANGES * support)
        x.iterations += 1
        length = _step(Z, loss, lam, x, target, pull)
        if length == 0.0 and damping >= _MOST_DAMPING:
            return x
        if length < _SHORT:
            damping = min(max(damping, _LEAST_DAMPING) * _DAMPING_STEP, _MOST_DAMPING)
        elif length == 1.0:
            damping = damping / _DAMPING_STEP if damping > _LEAST_DAMPING else 0.0


def _brought_up(
    Z: DenseColumns | SparseColumns, H: NDArray[np.float64], bent: NDArray[np.float64], now: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``Z' diag(now) Z``, from H for the curvatures `bent` (none: no samples) where few samples have others."""
    if not bent.size:
        return Z.weighted_gram(now)
    change = now - bent
    changed = np.count_nonzero(change)
    if changed > _FEW_ROWS * np.count_nonzero(now):
        return Z.weighted_gram(now)
    return Z.weighted_gram(change, H) if changed else H


def violation(pull: NDArray[np.float64], w: NDArray[np.float64], lam: NDArray[np.float64]) -> float:
    """How far ``v = Z'a`` is from ``lambda sign(w)``, or outside of ``[-lambda, lambda]`` where w is 0; the largest."""
    at_zero = np.maximum(np.abs(pull) - lam, 0.0)
    return float(np.max(np.where(w == 0.0, at_zero, np.abs(pull - lam * np.sign(w))), initial=0.0))


def _step(
    Z: DenseColumns | SparseColumns,
    loss: Pieces,
    lam: NDArray[np.float64],
    x: Point,
    target: NDArray[np.float64],
    pull: NDArray[np.float64],
) -> float:
    """Go towards the target as far as the objective falls; the share of the way, 0 where it does not fall at all."""
    d = target - x.w
    change = -Z.times(d)
    promised = float(np.dot(lam, np.abs(target) - np.abs(x.w)) - np.dot(pull, d))
    length = 1.0
    for _ in range(_HALVINGS):
        w = target if length == 1.0 else x.w + length * d
        t = x.t + length * change
        value = loss.value(t) + float(np.dot(lam, np.abs(w)))
        # At the end the fall is below rounding; a step that does not raise the objective is taken then.
        if value <= x.value + 1e-4 * length * min(promised, 0.0) + 4e-16 * abs(x.value):
            moved = bool(np.any(w != x.w))
            x.w, x.value = w, value
            x.t = 1.0 - Z.times(w) if length == 1.0 else t
            return length if moved else 0.0
        length *= 0.5
    return 0.0


def _lasso(
    H: NDArray[np.float64],
    h: NDArray[np.float64],
    lam: NDArray[np.float64],
    start: NDArray[np.float64],
    tol: float,
    settled: bool,
) -> NDArray[np.float64]:
    """``min u'Hu/2 - h'u + sum lambda |u|``; `settled` says that the signs of the start are nearly right."""
    u = start.copy()
    Hu = H @ u
    for rounds in range(_LASSO_ROUNDS):
        support = np.count_nonzero(u)
        if rounds or not settled:
            sweeps = _CHECKS if settled else max(_SWEEPS, support * support // _PER_SWEEP)
            if _sweeps(H, h, lam, u, Hu, sweeps, tol) <= tol:
                break
        for _ in range(_DROPS if support <= _LARGE else 1):
            if not _on_support(H, h, lam, u, Hu):
                break
    return u


@nb.njit(cache=True, nogil=True)
def _sweeps(H, h, lam, u, Hu, most, tol):  # type: ignore[no-untyped-def]
    """Coordinate descent; returns the largest violation met in the last sweep."""
    worst = 0.0
    for _ in range(most):
        # Changing a weight costs a row of H, and looking at it nothing: those that are nearly right wait.
        waits = _WAITS * worst
        worst = 0.0
        for j in range(u.size):
            curvature = H[j, j]
            slope = h[j] - Hu[j]
            if curvature <= 0.0:
                # No sample inside has this feature: its weight costs and brings nothing (its row of H is zero).
                if abs(slope) <= lam[j]:
                    u[j] = 0.0
                continue
            old = u[j]
            off = abs(slope) - lam[j] if old == 0.0 else abs(slope - lam[j] * np.sign(old))
            worst = max(worst, off)
            if off <= waits:
                continue
            free = slope + curvature * old
            new = np.sign(free) * max(abs(free) - lam[j], 0.0) / curvature
            if new != old:
                u[j] = new
                row = H[j]
                change = new - old
                for i in range(u.size):
                    Hu[i] += change * row[i]
        if worst <= tol:
            break
    return worst


def _on_support(
    H: NDArray[np.float64],
    h: NDArray[np.float64],
    lam: NDArray[np.float64],
    u: NDArray[np.float64],
    Hu: NDArray[np.float64],
) -> bool:
    """A Newton step over the weights that are not zero; whether some would have changed their signs.

    Those are set to zero all at once, if that lowers the objective; else the step ends at the first of them.
    """
    S = np.flatnonzero((u != 0.0) | (lam == 0.0))
    if not S.size:
        return False
    old, sign = u[S], np.sign(u[S])
    residual = h[S] - lam[S] * sign - Hu[S]
    held, factor = lam[S] > 0.0, factored(lambda: _square(H, S))
    d = solved(factor, residual)
    crossing = held & ((old + d) * sign <= 0.0)
    aside, stopped = _stopped(factor, d, old, held, crossing)
    change = np.where(held & ((old + aside) * sign <= 0.0), -old, aside)
    bent = _times(H, S, change)
    if float(change @ (0.5 * bent[S] - residual)) > 0.0:
        change, stopped = d, False
        if np.any(crossing):
            lengths = np.where(crossing, -old / np.where(crossing, d, 1.0), np.inf)
            first = int(np.argmin(lengths))
            change = lengths[first] * d
            change[first] = -old[first]
        bent = _times(H, S, change)
        # A matrix without full rank yields a direction of no use or of any length: no longer than to its minimum.
        slope, curvature = float(residual @ change), float(change @ bent[S])
        if not slope > 0.0:
            return False
        if slope < curvature:
            change = (slope / curvature) * change
            bent *= slope / curvature
    u[S] += change
    Hu += bent
    return bool(np.any(crossing)) and not stopped


def _stopped(
    factor: NDArray[np.float64],
    d: NDArray[np.float64],
    old: NDArray[np.float64],
    held: NDArray[np.bool_],
    crossing: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], bool]:
    """The step d changed to the best with its crossing weights at zero, and whether none of the others crosses now.

    A few weights are held at zero by multipliers, for one more pair of triangular systems each: less than to factorise
    again without them.
    """
    count, aside = 0, d
    for _ in range(_STOPS):
        stopped = np.flatnonzero(crossing)
        if stopped.size == count or stopped.size > _MOST_STOPPED:
            break
        units = np.zeros((old.size, stopped.size), order="F")
        units[stopped, np.arange(stopped.size)] = 1.0
        moved = solved(factor, units)
        if not np.all(np.isfinite(moved)):  # features without a sample inside
            break
        count = stopped.size
        aside = d - moved @ np.linalg.lstsq(moved[stopped], d[stopped] + old[stopped], rcond=None)[0]
        aside[stopped] = -old[stopped]
        crossing = held & ((old + aside) * np.sign(old) <= 0.0)
    return aside, np.count_nonzero(crossing) == count


@nb.njit(cache=True, nogil=True)
def _square(H, S):  # type: ignore[no-untyped-def]
    """The rows and columns S of H; its lower triangle, which is all that a factorisation reads."""
    out = np.empty((S.size, S.size))
    for a in range(S.size):
        row = H[S[a]]
        for b in range(a + 1):
            out[a, b] = row[S[b]]
    return out


def _times(H: NDArray[np.float64], S: NDArray[np.intp], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """``H[:, S] x``; H is symmetric, so whole rows are what is read."""
    spread = np.zeros(H.shape[0])
    spread[S] = x
    return np.asarray(H @ spread)

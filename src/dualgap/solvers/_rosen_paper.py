"""The steps of the paper for `rosen`: steepest descent on a face, one bound released at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.result import Outcome, Status
from dualgap.solvers._rosen_step import FLAT, advance, reach

if TYPE_CHECKING:
    from dualgap.solvers._rosen_run import Run

# Steps between two reports: as many as there are variables, 100 to 1000, or an eighth of those done so far (a long run
# would otherwise spend its time on looking at the gap), and no more than this many multiplications.
_CHUNK_LEAST, _CHUNK_MOST, _CHUNK_SHARE, _CHUNK_PRODUCTS = 100, 1000, 8, 100_000_000


def paper_steps(run: Run, tol: float, first_tol: float) -> Outcome:
    """Step until the KKT violation is at most `tol`, by way of `first_tol` and its tenths."""
    stage = max(tol, first_tol)
    while True:
        reached, moved, violation = _chunk(run, stage)
        if run.tell(violation, complete=True):
            return run.outcome(Status.STOPPED)
        if reached and stage <= tol:
            return run.outcome(Status.CONVERGED)
        if reached:
            stage = max(tol, 0.1 * stage)
        elif not moved:
            return run.outcome(Status.STALLED)
        if run.remaining == 0:
            return run.outcome(Status.MAX_ITER)


def _chunk(run: Run, tol: float) -> tuple[bool, bool, float]:
    """Some steps; whether `tol` is reached, whether the last step moved anything, and the violation."""
    p, groups = run.problem, run.problem.groups
    assert groups is not None  # supports() has said so
    d = np.empty(p.n)
    steps = min(max(p.n, _CHUNK_LEAST), _CHUNK_MOST)
    left = min(max(steps, run.iterations // _CHUNK_SHARE), run.remaining)
    work, decrease, taken = 0, 0.0, 0
    reached, moved = False, True
    while True:
        violation = float(
            paper_direction(run.a, run.gradient, p.lo, p.hi, groups.scale, groups.group, groups.rhs.size, tol, d)
        )
        reached = violation <= tol
        if reached or not moved or taken >= left or work > _CHUNK_PRODUCTS:
            run.absorb(taken, decrease)
            return reached, moved, violation
        variables = np.flatnonzero(d)
        work += variables.size * p.n
        Hd = run.rows.product(variables, d[variables])
        gained = clipped_step(run.a, run.gradient, d, Hd, p.lo, p.hi, run.curvature)
        moved = gained > 0.0
        decrease += gained
        taken += 1


@nb.njit(cache=True, nogil=True)
def clipped_step(a, gradient, d, Hd, lo, hi, curvature):  # type: ignore[no-untyped-def]
    """Minimise along d within the box; returns the decrease."""
    gain = bend = square = 0.0
    for i in range(a.size):
        gain -= gradient[i] * d[i]
        bend += d[i] * Hd[i]
        square += d[i] * d[i]
    if not gain > 0.0:
        return 0.0
    first, _ = reach(a, d, lo, hi)
    # Negative curvature, of an indefinite kernel, runs to the bound as well.
    t = min(gain / max(bend, FLAT * curvature * square), first)
    advance(a, gradient, d, Hd, lo, hi, t)
    return t * (gain - 0.5 * t * bend)


@nb.njit(cache=True, nogil=True)
def paper_direction(a, gradient, lo, hi, scale, group, count, tol, d):  # type: ignore[no-untyped-def]
    """Write the paper's direction to `d`; returns the KKT violation.

    On the face where its entries are not yet within `tol` of each other, else with the most negative multiplier (4), or
    the pair that violates most of a group without free variables, released (5).
    """
    n = a.size
    squares, products = np.zeros(count), np.zeros(count)
    up, low = np.full(count, -np.inf), np.full(count, np.inf)
    up_at, low_at = np.full(count, -1), np.full(count, -1)
    free_up, free_low = np.full(count, -np.inf), np.full(count, np.inf)
    largest = np.zeros(count)
    violation = on_face = 0.0
    for i in range(n):
        grows, falls = a[i] < hi[i], a[i] > lo[i]
        g = group[i]
        if g < 0:
            if (grows and gradient[i] < 0.0) or (falls and gradient[i] > 0.0):
                violation = max(violation, abs(gradient[i]))
            if grows and falls:
                on_face = max(on_face, abs(gradient[i]))
            continue
        c = scale[i]
        v = -gradient[i] / c
        largest[g] = max(largest[g], abs(c))
        if grows and falls:
            squares[g] += c * c
            products[g] += c * gradient[i]
            free_up[g], free_low[g] = max(free_up[g], v), min(free_low[g], v)
        if (grows if c > 0.0 else falls) and v > up[g]:
            up[g], up_at[g] = v, i
        if (falls if c > 0.0 else grows) and v < low[g]:
            low[g], low_at[g] = v, i
    for g in range(count):
        violation = max(violation, (up[g] - low[g]) * largest[g])
        on_face = max(on_face, (free_up[g] - free_low[g]) * largest[g])
    first, second = -1, -1
    if on_face <= tol < violation:
        first, second = _most_violating(
            a, gradient, lo, hi, scale, group, squares, products, up, low, up_at, low_at, largest
        )
        for i in (first, second):
            if i >= 0 and group[i] >= 0:
                squares[group[i]] += scale[i] * scale[i]
                products[group[i]] += scale[i] * gradient[i]
    for i in range(n):
        d[i] = 0.0
        if (lo[i] < a[i] < hi[i]) or i == first or i == second:
            g = group[i]
            d[i] = -gradient[i] if g < 0 else -gradient[i] + scale[i] * products[g] / squares[g]
    return violation


@nb.njit(cache=True, nogil=True)
def _most_violating(  # type: ignore[no-untyped-def]
    a, gradient, lo, hi, scale, group, squares, products, up, low, up_at, low_at, largest
):
    """The bounded variable with the most negative multiplier, or a pair of a group without free variables."""
    most, first, second = 0.0, -1, -1
    for i in range(a.size):
        grows, falls = a[i] < hi[i], a[i] > lo[i]
        g = group[i]
        if grows == falls or (g >= 0 and squares[g] == 0.0):
            continue
        multiplier = gradient[i] if g < 0 else gradient[i] - scale[i] * products[g] / squares[g]
        if falls:
            multiplier = -multiplier
        if -multiplier > most:
            most, first, second = -multiplier, i, -1
    for g in range(up.size):
        if squares[g] == 0.0 and 0.5 * (up[g] - low[g]) * largest[g] > most:
            most, first, second = 0.5 * (up[g] - low[g]) * largest[g], up_at[g], low_at[g]
    return first, second

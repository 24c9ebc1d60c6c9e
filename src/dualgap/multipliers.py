"""The best multipliers eta for a fixed point: the bias and all free coefficients, chosen to make P least.

For slopes ``s0 = (H - diag(ridge)) a + f0`` the primal objective depends on eta by::

    p(eta) = e'eta - sum_i min_{lo_i <= t <= hi_i} (ridge_i t^2/2 + (s0 + F eta)_i t)

convex, piecewise linear where ridge is 0 and piecewise quadratic elsewhere, in k variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.constraints import Groups
    from dualgap.problem import DualQP

# Vertices visited at most, for each multiplier: from nothing the search needs some ten; only cycling reaches this.
_VERTICES_EACH = 100
_VERTEX_ROUNDING = 1e-12
# The smoothing starts at the scale of the slopes and ends where its error is below the rounding of P.
_SMOOTHEST, _SHARPEST, _SHARPEN = 1e0, 1e-13, 1e-2
_NEWTON_STEPS = 60  # per level; a piecewise quadratic in few variables ends long before
_SUFFICIENT = 1e-4  # Armijo fraction
_HALVINGS = 40  # a step of 1e-12 of Newton's moves nothing
_ROOT_STEPS = 100  # bisection alone would be at rounding after some 60
# Kinks from which on a sample of them pays, its size, and how far on either side of its own answer the answer is looked
# for: a rank in a sample of 512 has a standard deviation of 11 at most, so that one in some 100 000 is further off.
_WORTH_A_SAMPLE, _SAMPLE, _MARGIN = 4096, 512, 48
_SUM_ROUNDING = 1e-13  # of the derivative, relative to the terms it is a sum of


def best_multipliers(
    problem: DualQP, slope: NDArray[np.float64], start: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Minimise the primal objective over eta at slopes `slope` (without the multipliers' part)."""
    if problem.k == 0:
        return np.zeros(0)
    groups = problem.groups
    if groups is not None and groups.rhs.size == 1 and _is_flat(problem):
        # Nearly always, and small fits feel what surrounds compiled code.
        ends = _quantile(groups.members[0], groups.scale, slope, problem.lo, problem.hi, float(groups.rhs[0]))
        return groups.eta(np.array([0.5 * (ends[0] + ends[1])]))
    if groups is not None and separable(problem):
        first, last = _group_multipliers(problem, slope, groups)
        return groups.eta(0.5 * (first + last))
    start = np.zeros(problem.k) if start is None else np.asarray(start, dtype=np.float64)
    if _is_flat(problem):
        return _vertex_search(problem, slope, start)
    return _smoothed_newton(problem, slope, start)


def separable(problem: DualQP) -> bool:
    """Whether the best multipliers are found group by group, so that `multiplier_ends` knows all of them."""
    return problem.groups is not None and (_is_flat(problem) or problem.curved)


def multiplier_ends(problem: DualQP, slope: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the interval of the best multipliers of a `separable` problem: P is the same all the way between."""
    assert problem.groups is not None
    if problem.k == 0:
        return np.zeros(0), np.zeros(0)
    ends = _group_multipliers(problem, slope, problem.groups)
    return problem.groups.eta(ends[0]), problem.groups.eta(ends[1])


def _is_flat(problem: DualQP) -> bool:
    """Whether p is piecewise linear and bounded below by finite bounds."""
    return problem.ridgeless and problem.bounded


def _group_multipliers(
    problem: DualQP, slope: NDArray[np.float64], groups: Groups
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest of the best multipliers of every group."""
    flat = _is_flat(problem)
    ends = [
        _quantile(members, groups.scale, slope, problem.lo, problem.hi, float(rhs))
        if flat
        else _root(problem, slope, groups, members, float(rhs))
        for members, rhs in zip(groups.members, groups.rhs, strict=True)
    ]
    first, last = np.array(ends).reshape(-1, 2).T
    return first, last


@nb.njit(cache=True, nogil=True)
def _crossing(kinks, jumps, derivative, level, strictly):  # type: ignore[no-untyped-def]
    """The kink whose jump lifts the derivative to `level` (or, `strictly`, above it), and what it lifts it to.

    The last kink where none does. Selection of a weighted rank by partition about pivots, O(n): sorting 50 000 kinks
    would take longer than everything else a certificate does. Both arrays are put into another order.
    """
    begin, end = 0, kinks.size
    while end - begin > 1:
        first, middle, last = kinks[begin], kinks[(begin + end) // 2], kinks[end - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        # Three parts: below the pivot, equal to it, above it.
        below, at, above = begin, begin, end
        mass_below = mass_equal = 0.0
        while at < above:
            kink, jump = kinks[at], jumps[at]
            if kink < pivot:
                mass_below += jump
                kinks[at], jumps[at] = kinks[below], jumps[below]
                kinks[below], jumps[below] = kink, jump
                below += 1
                at += 1
            elif kink > pivot:
                above -= 1
                kinks[at], jumps[at] = kinks[above], jumps[above]
                kinks[above], jumps[above] = kink, jump
            else:
                mass_equal += jump
                at += 1
        reached = derivative + mass_below
        if below > begin and (reached > level if strictly else reached >= level):
            end = below
            continue
        reached += mass_equal
        if above == end or (reached > level if strictly else reached >= level):
            return pivot, reached
        derivative, begin = reached, above
    return kinks[begin], derivative + jumps[begin]


@nb.njit(cache=True, nogil=True)
def _quantile(members, scale, slope, lo, hi, rhs):  # type: ignore[no-untyped-def]
    """Exact minimisers for one group without ridge, from the least to the greatest.

    The derivative in theta is ``rhs - sum_i c_i t_i``; every t_i jumps between its bounds where
    ``s0_i + c_i theta`` changes sign, which raises the derivative by ``|c_i| (hi_i - lo_i)``.
    """
    kinks, jumps = np.empty(members.size), np.empty(members.size)
    least = total = 0.0  # of the sum, before all jumps, and of the jumps
    for r in range(members.size):
        i = members[r]
        kinks[r] = -slope[i] / scale[i]
        jumps[r] = abs(scale[i]) * (hi[i] - lo[i])
        least += scale[i] * (hi[i] if scale[i] > 0.0 else lo[i])
        total += jumps[r]
    rounding = _SUM_ROUNDING * max(abs(rhs), total, 1e-300)
    derivative = rhs - least
    if members.size >= _WORTH_A_SAMPLE:
        kinks, jumps, derivative = _bracketed(kinks, jumps, derivative, rounding)
    first, reached = _crossing(kinks, jumps, derivative, -rounding, False)
    if reached > rounding:  # one jump across both levels, and a single minimiser
        return first, first
    # Nearly always the greatest is the next kink, as looks at all of them show: half the time of a search.
    following = np.inf
    for r in range(kinks.size):
        following = min(following, kinks[r] if kinks[r] > first else np.inf)
    for r in range(kinks.size):
        reached += jumps[r] if kinks[r] == following else 0.0
    if reached > rounding:
        return first, following
    return first, _crossing(kinks, jumps, derivative, rounding, True)[0]


@nb.njit(cache=True, nogil=True)
def _bracketed(kinks, jumps, derivative, rounding):  # type: ignore[no-untyped-def]
    """The kinks around which the derivative changes its sign, and what it is before them; all where a sample misleads.

    A sample tells between which two kinks that is, and one pass without branches takes out those between: partitions
    of all kinks would take branches that nobody can predict.
    """
    stride = kinks.size // _SAMPLE
    sample, weight = kinks[::stride].copy(), jumps[::stride].copy()
    order = np.argsort(sample)
    target, mass, place = -derivative / stride, 0.0, 0
    while place < order.size and mass < target:
        mass += weight[order[place]]
        place += 1
    low = sample[order[place - _MARGIN]] if place >= _MARGIN else -np.inf
    high = sample[order[place + _MARGIN]] if place + _MARGIN < order.size else np.inf
    some, with_jumps = np.empty(kinks.size), np.empty(kinks.size)
    count, before, between = 0, 0.0, 0.0
    for r in range(kinks.size):
        inside = (kinks[r] >= low) & (kinks[r] <= high)
        some[count], with_jumps[count] = kinks[r], jumps[r]
        count += inside
        before += jumps[r] * (kinks[r] < low)
        between += jumps[r] * inside
    if derivative + before < -rounding and derivative + before + between > rounding:
        return some[:count], with_jumps[:count], derivative + before
    return kinks, jumps, derivative


def _root(
    problem: DualQP, slope: NDArray[np.float64], groups: Groups, members: NDArray[np.intp], rhs: float
) -> tuple[float, float]:
    """Minimiser (twice) for one group whose variables all have a ridge: the derivative's root, by bracketed Newton."""
    parts = (slope, problem.ridge, problem.lo, problem.hi, groups.scale)
    chosen = parts if members.size == problem.n else tuple(part[members] for part in parts)
    theta, low, high = 0.0, -np.inf, np.inf
    step = 1.0
    for _ in range(_ROOT_STEPS):
        total, bend = _answers(*chosen, theta)
        derivative = rhs - total
        if derivative == 0.0:
            break
        low, high = (theta, high) if derivative < 0.0 else (low, theta)
        proposal = theta - derivative / bend if bend > 0.0 else np.nan
        if not low < proposal < high:
            # No curvature here, or a step out of the bracket: halve it, or go on in strides that double.
            step *= 2.0
            proposal = 0.5 * (low + high) if np.isfinite(high - low) else theta - np.sign(derivative) * step
        if proposal == theta or not low < proposal < high:
            break
        theta = proposal
    return theta, theta


@nb.njit(cache=True, nogil=True)
def _answers(slope, ridge, lo, hi, scale, theta):  # type: ignore[no-untyped-def]
    """``sum_i c_i t_i`` at a group multiplier, and minus its derivative."""
    total = bend = 0.0
    for i in range(slope.size):
        t = -(slope[i] + scale[i] * theta) / ridge[i]
        inside = lo[i] < t < hi[i]
        total += scale[i] * min(max(t, lo[i]), hi[i])
        bend += scale[i] * scale[i] / ridge[i] if inside else 0.0
    return total, bend


def _vertex_search(problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exact minimiser for coupled constraints without ridge: the simplex method on the kinks.

    At a vertex k slopes vanish, those of the basis B. Their values t_B follow from ``F'a = e`` with every other t_i
    at the bound its slope asks for; the vertex is optimal when t_B lies in the box. Otherwise the worst member leaves:
    along the edge where only its slope moves, an exact line search passes kinks as long as p falls.
    """
    F, e, lo, hi = problem.F, problem.e, problem.lo, problem.hi
    basis: list[int] = []
    best, best_value = eta, _objective(problem, slope, eta, problem.ridge)
    for _ in range(_VERTICES_EACH * (problem.k + 1)):
        s = slope + F @ eta
        s[basis] = 0.0
        t = np.where(s > 0.0, lo, hi)
        t[basis] = 0.0
        gradient = e - F.T @ t
        leaving = -1
        # Descend first within the directions that keep the slopes of the basis at zero.
        inside = gradient if not basis else gradient - np.linalg.pinv(F[basis]) @ (F[basis] @ gradient)
        if len(basis) < problem.k and np.abs(inside).max() > _VERTEX_ROUNDING * np.abs(F).T.dot(np.abs(t)).max():
            direction = -inside
        elif not basis:
            break
        else:
            t_basis = np.linalg.lstsq(F[basis].T, gradient, rcond=None)[0]
            over, under = t_basis - hi[basis], lo[basis] - t_basis
            worst = int(np.argmax(np.maximum(over, under)))
            if max(over[worst], under[worst]) <= _VERTEX_ROUNDING * max(1.0, float(np.abs(t_basis).max())):
                break
            unit = np.zeros(len(basis))
            unit[worst] = -1.0 if over[worst] > under[worst] else 1.0
            direction = np.asarray(np.linalg.lstsq(F[basis], unit, rcond=None)[0], dtype=np.float64)
            leaving = basis[worst]
        length, entering = _line_search(problem, s, basis, leaving, direction)
        if entering < 0:
            break
        eta = eta + length * direction
        if leaving >= 0:
            basis.remove(leaving)
        basis.append(entering)
        value = _objective(problem, slope, eta, problem.ridge)
        if value < best_value:
            best, best_value = eta, value
    return best


def _line_search(
    problem: DualQP, s: NDArray[np.float64], basis: list[int], leaving: int, direction: NDArray[np.float64]
) -> tuple[float, int]:
    """How far p falls along `direction` and whose kink ends it; (0, -1) where it does not fall."""
    rate = problem.F @ direction
    rate[[b for b in basis if b != leaving]] = 0.0  # exactly: they stay in the basis
    moving = np.abs(rate) > _VERTEX_ROUNDING * max(float(np.abs(rate).max()), 1e-300)
    t = np.where(s > 0.0, problem.lo, np.where(s < 0.0, problem.hi, np.where(rate > 0.0, problem.lo, problem.hi)))
    derivative = float(problem.e @ direction) - float(rate[moving] @ t[moving])
    ahead = np.flatnonzero(moving & (s * rate < 0.0))
    if derivative >= 0.0 or ahead.size == 0:
        return 0.0, -1
    lengths = -s[ahead] / rate[ahead]
    order = np.argsort(lengths, kind="stable")
    rises = np.cumsum((np.abs(rate) * (problem.hi - problem.lo))[ahead[order]])
    stop = min(int(np.searchsorted(rises, -derivative)), ahead.size - 1)
    return float(lengths[order[stop]]), int(ahead[order[stop]])


def _smoothed_newton(problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's method on p with a small ridge in place of the kinks, the ridge sharpened in stages.

    A ridge of mu changes p by at most ``mu sum t^2/2``, so the last stage is exact to rounding. Variables with
    a ridge of their own keep it.
    """
    reach = np.where(np.isfinite(problem.hi), np.maximum(np.abs(problem.lo), np.abs(problem.hi)), 1.0)
    scale = max(float(np.abs(slope).max()), 1e-300) / np.maximum(reach, 1e-300)
    level = _SMOOTHEST
    best, best_value = eta, _objective(problem, slope, eta, problem.ridge)
    while level >= _SHARPEST:
        ridge = np.where(problem.ridge > 0.0, problem.ridge, level * scale)
        eta = _newton(problem, slope, eta, ridge)
        value = _objective(problem, slope, eta, problem.ridge)
        if value <= best_value:
            best, best_value = eta, value
        if np.all(problem.ridge > 0.0):
            break
        level *= _SHARPEN
    return best


def _newton(
    problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64], ridge: NDArray[np.float64]
) -> NDArray[np.float64]:
    F, e = problem.F, problem.e
    value = _objective(problem, slope, eta, ridge)
    for _ in range(_NEWTON_STEPS):
        s = slope + F @ eta
        t = np.clip(-s / ridge, problem.lo, problem.hi)
        gradient = e - F.T @ t
        moving = (t > problem.lo) & (t < problem.hi)
        hessian = (F[moving] / ridge[moving, None]).T @ F[moving]
        # A face without moving variables has no curvature: a ridge far below the usual curvature turns the step
        # into a long gradient step, which the line search cuts.
        hessian[np.diag_indices_from(hessian)] += 1e-12 * (F * F / ridge[:, None]).sum(axis=0) + 1e-300
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        slope_along = float(gradient @ step)
        if not slope_along < 0.0:
            break
        length, found = 1.0, False
        for _ in range(_HALVINGS):
            trial = _objective(problem, slope, eta + length * step, ridge)
            if trial <= value + _SUFFICIENT * length * slope_along and trial < value:
                found = True
                break
            length *= 0.5
        if not found:
            break
        eta, value = eta + length * step, trial
    return eta


def _objective(
    problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64], ridge: NDArray[np.float64]
) -> float:
    s = slope + problem.F @ eta
    curved = ridge > 0.0
    t = np.clip(-s / np.where(curved, ridge, 1.0), problem.lo, problem.hi)
    with np.errstate(invalid="ignore"):
        flat = np.minimum(np.where(s == 0.0, 0.0, s * problem.lo), np.where(s == 0.0, 0.0, s * problem.hi))
    return float(problem.e @ eta - np.where(curved, t * (0.5 * ridge * t + s), flat).sum())

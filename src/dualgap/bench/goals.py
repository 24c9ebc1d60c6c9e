"""What is asked of whom: gaps that count as one goal, and the loosest tolerance with which a peer reaches a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

# Gaps that differ by less are one goal for dualgap, the smaller of them: a tenth in the gap is about a hundredth in
# time, less than runs differ by.
_SAME_GOAL = 1.1
# A peer's gap within this factor below the goal is close enough: a tolerance is no exact dial.
_CLOSE = 3.0
# Runs of a search: each halves the exponent of what is left, and peers can be slow.
MOST_RUNS = 8
# Tolerances that can be asked for at all: below, peers run into the rounding of their gradients; above, they return
# the start.
_LEAST_TOL, _MOST_TOL = 1e-12, 1.0
# How far one step goes before a bracket is found, at least and at most. The gap falls about as fast as the tolerance.
_SHORT_STEP, LONG_STEP = 3.0, 1000.0
# Ends of a bracket that are the same for all practical purposes.
_NARROW = 1.1
# A third of the tolerance (or less) that does not lower the gap by a tenth has reached the end of the arithmetic; to go
# on can take for ever, since solvers in single precision then run in circles.
_FALLING = 0.9


def merged(gaps: Sequence[float]) -> dict[float, float]:
    """For each gap the goal it is merged into: itself or a smaller one within a tenth.

    Examples
    --------
    >>> merged([1.0, 1.05, 1.2])
    {1.0: 1.0, 1.05: 1.0, 1.2: 1.2}
    """
    goals: dict[float, float] = {}
    goal = 0.0
    for gap in sorted(gaps):
        if goal == 0.0 or gap > goal * _SAME_GOAL:
            goal = gap
        goals[gap] = goal
    return goals


@dataclass(frozen=True)
class Found:
    """The outcome of a search: a tolerance, or the reason why there is none.

    `capped` is the loosest tolerance whose run was ended for taking too long, where the search was given up for that.
    """

    tol: float | None
    reason: str = ""
    capped: float | None = None


def loosest_tolerance(
    gap_at: Callable[[float], float | str | None],
    goal: float,
    known: Mapping[float, float],
    longest_step: float = LONG_STEP,
    most_capped: int = 1,
) -> Found:
    """Search the loosest tolerance whose gap is at most `goal`, by bisection of its logarithm.

    Parameters
    ----------
    gap_at : callable
        The gap that a tolerance leads to, the reason why the run failed, or None where it was ended for taking too
        long. Called `MOST_RUNS` times at most.
    goal : float
        The gap to reach; between a third of it and itself the search is over.
    known : mapping
        Gaps of tolerances that have been run, at least one.
    longest_step : float
        The most that a tolerance is divided or multiplied by at once, before a bracket is found.
    most_capped : int
        Runs that may be ended before the search is given up. After one of them a looser tolerance is tried, halfway
        (in the logarithm) to the tightest that missed the goal: the first guess may have been too tight.

    Returns
    -------
    Found
    """
    gaps = dict(known)
    capped: list[float] = []
    for _ in range(MOST_RUNS):
        tol = _next(gaps, goal, longest_step, max(capped, default=None))
        if tol is None:
            break
        gap = gap_at(tol)
        if gap is None:
            capped.append(tol)
            if len(capped) >= most_capped:
                break
            continue
        if isinstance(gap, str):
            if _loosest(gaps, goal) is None:
                return Found(None, f"{gap} at tol={tol:.1e}")
            break
        ended = tol < min(gaps) and goal < gap > _FALLING * min(gaps.values())
        gaps[tol] = gap
        if ended:
            break
    tol = _loosest(gaps, goal)
    if tol is None and capped:
        return Found(None, capped=max(capped))
    if tol is None:
        return Found(None, f"its gap stays at {min(gaps.values()):.1e}, down to tol={min(gaps):.1e}")
    return Found(tol)


def _loosest(gaps: Mapping[float, float], goal: float) -> float | None:
    return max((tol for tol, gap in gaps.items() if gap <= goal), default=None)


def _next(gaps: Mapping[float, float], goal: float, longest_step: float, capped: float | None = None) -> float | None:
    """The tolerance to try, None where the search is over; `capped` is the loosest one that took too long."""
    good = _loosest(gaps, goal)
    if good is not None and gaps[good] >= goal / _CLOSE:
        return None
    # Only what is looser than a good tolerance is of interest, should the gap not be monotone.
    bad = min((tol for tol, gap in gaps.items() if gap > goal and (good is None or tol > good)), default=None)
    if good is not None and bad is not None:
        return sqrt(good * bad) if bad / good > _NARROW else None
    aim = goal / sqrt(_CLOSE)
    if good is None:
        assert bad is not None
        if capped is not None:
            # Within the factor that a tolerance is worth, nothing is left to be found between the two.
            return sqrt(capped * bad) if bad / capped > _CLOSE else None
        factor = min(max(gaps[bad] / aim, _SHORT_STEP), longest_step)
        return max(bad / factor, _LEAST_TOL) if bad > _LEAST_TOL else None
    # A gap of zero leaves the longest step.
    factor = min(max(aim / max(gaps[good], aim / longest_step), _SHORT_STEP), longest_step)
    return min(good * factor, _MOST_TOL) if good < _MOST_TOL else None

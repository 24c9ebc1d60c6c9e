"""Equality constraints F'a = e: splitting them into independent groups, and a feasible start.

Most rows of the formulation table have constraints that fall apart into groups of variables with one
constraint each: ``y'a = 0`` is one group; nu-SVC's ``y'a = 0, 1'a = s`` says that each class sums to
``s/2``, hence two groups. Pairs within a group then move freely, and the best multipliers are found one
group at a time. Coupled constraints (semi-parametric models) do not split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Directions that differ by less are the same constraint; the tables hold +-1 and 1 exactly, so this only
# has to absorb the rounding of a user's own scaling.
_SAME_DIRECTION = 1e-12
# A point further from its constraints than this (relative to the sums they are made of, see `infeasibility`) has no
# dual objective: no goal counts as met there.
FEASIBLE = 1e-9
# A residual this small against the terms it is made of is rounding, not infeasibility.
_FEASIBLE = 1e-10


class InfeasibleProblemError(ValueError):
    """No point of the box satisfies the equality constraints."""


@dataclass(frozen=True)
class Groups:
    """Independent constraints: ``sum over i in g of scale_i a_i = rhs_g`` for every group g.

    Attributes
    ----------
    group : ndarray of int64, shape (n,)
        Group of each variable; -1 for a variable in no constraint.
    scale : ndarray, shape (n,)
        Its coefficient there (0 where group is -1).
    rhs : ndarray, shape (G,)
        Right-hand sides.
    directions : ndarray, shape (G, k)
        ``F[i] = scale_i * directions[group_i]``; group multipliers are ``theta = directions @ eta``.
    """

    group: NDArray[np.int64]
    scale: NDArray[np.float64]
    rhs: NDArray[np.float64]
    directions: NDArray[np.float64]

    @cached_property
    def members(self) -> list[NDArray[np.intp]]:
        """The variables of each group."""
        if self.rhs.size == 1 and self.group.min() == 0:  # nearly always
            return [np.arange(self.group.size)]
        return [np.flatnonzero(self.group == g) for g in range(self.rhs.size)]

    def eta(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """The multipliers of F that give the group multipliers `theta`."""
        if self.directions.size == 1:
            return theta / self.directions[0]
        return np.asarray(np.linalg.lstsq(self.directions, theta, rcond=None)[0], dtype=np.float64)


def split(F: NDArray[np.float64], e: NDArray[np.float64]) -> Groups | None:
    """Split ``F'a = e`` into independent groups, or return None where the constraints are coupled."""
    n, k = F.shape
    if k == 0:
        return Groups(np.full(n, -1, dtype=np.int64), np.zeros(n), np.zeros(0), np.zeros((0, 0)))
    if k == 1:  # by far the most frequent, and small fits feel every microsecond
        group = np.where(F[:, 0] != 0.0, 0, -1).astype(np.int64, copy=False)
        return Groups(group, F[:, 0].copy(), e.copy(), np.ones((1, 1)))
    group = np.full(n, -1, dtype=np.int64)
    scale = np.zeros(n)
    directions: list[NDArray[np.float64]] = []
    left = np.flatnonzero(np.any(F != 0.0, axis=1))
    while left.size:
        if len(directions) == k:
            return None
        direction = F[left[0]] / np.linalg.norm(F[left[0]], np.inf)
        along = F[left] @ direction / (direction @ direction)
        off = np.abs(F[left] - np.outer(along, direction)).max(axis=1)
        same = off <= _SAME_DIRECTION * np.abs(along)
        group[left[same]] = len(directions)
        scale[left[same]] = along[same]
        directions.append(direction)
        left = left[~same]
    stacked = np.array(directions).reshape(len(directions), k)
    if np.linalg.matrix_rank(stacked) < len(directions):
        return None
    rhs = np.asarray(np.linalg.lstsq(stacked.T, e, rcond=None)[0], dtype=np.float64) if k else np.zeros(0)
    if np.abs(stacked.T @ rhs - e).max(initial=0.0) > _FEASIBLE * max(1.0, np.abs(e).max(initial=0.0)):
        raise InfeasibleProblemError("The equality constraints F'a = e contradict each other.")
    return Groups(group, scale, rhs, stacked)


def infeasibility(problem: DualQP, a: NDArray[np.float64]) -> float:
    """Largest violation of ``F'a = e`` relative to the sums it is made of, and of the box."""
    from dualgap._vector_passes import missed

    residual, terms = problem.e.copy(), np.zeros(problem.k)
    outside = missed(np.asarray(a, dtype=np.float64), problem.lo, problem.hi, problem.F, residual, terms)
    return relative_miss(outside, residual, terms)


def relative_miss(outside: float, residual: NDArray[np.float64], terms: NDArray[np.float64]) -> float:
    """`infeasibility` of a point that far outside the box, with such residuals of constraints made of such terms."""
    if residual.size == 0:
        return outside
    if residual.size == 1:  # nearly always
        return max(outside, abs(float(residual[0])) / max(float(terms[0]), 1.0))
    return max(outside, float(np.max(np.abs(residual) / np.maximum(terms, 1.0))))


def feasible_start(problem: DualQP, near: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """A point of the box with ``F'a = e``; `near` is kept as far as the constraints leave it.

    Raises
    ------
    InfeasibleProblemError
        When there is none.
    """
    a = np.clip(0.0 if near is None else near, problem.lo, problem.hi)
    if infeasibility(problem, a) <= (0.0 if near is None else _FEASIBLE):
        return a
    groups = problem.groups
    return _feasible_by_linear_program(problem) if groups is None else grouped_start(problem, groups, near)


def grouped_start(problem: DualQP, groups: Groups, near: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """A point of the box that obeys some of the constraints, those that `groups` stands for.

    Raises
    ------
    InfeasibleProblemError
        When there is none.
    """
    a = np.minimum(np.maximum(problem.lo, 0.0 if near is None else near), problem.hi)
    for g in range(groups.rhs.shape[0]):
        _fill(problem, a, groups.members[g], groups.scale, float(groups.rhs[g]))
    return a


def _fill(
    problem: DualQP, a: NDArray[np.float64], members: NDArray[np.intp], scale: NDArray[np.float64], rhs: float
) -> None:
    """Move the members of one group, in order, to their bounds until the group's sum is `rhs`."""
    if rhs == 0.0 and not a.any():  # where most begin
        return
    missing = rhs - float(scale[members] @ a[members])
    if missing == 0.0:
        return
    direction = np.sign(missing * scale[members])
    reach = np.where(direction > 0, problem.hi[members], problem.lo[members])
    room = np.abs(scale[members] * (reach - a[members]))
    needed = np.minimum(room, abs(missing))  # sums of infinite boxes would be of no use
    used = np.clip(abs(missing) - (np.cumsum(needed) - needed), 0.0, needed)
    if abs(missing) - used.sum() > _FEASIBLE * max(1.0, abs(rhs)):
        raise InfeasibleProblemError(
            f"The equality constraints F'a = e cannot be met within the box: a sum of {rhs:.6g} is asked for "
            f"where {rhs - np.sign(missing) * (abs(missing) - used.sum()):.6g} is the most extreme possible."
        )
    full = used >= room
    a[members] = np.where(full, reach, a[members] + direction * used / np.abs(scale[members]))


def _feasible_by_linear_program(problem: DualQP) -> NDArray[np.float64]:
    from scipy.optimize import linprog

    answer = linprog(
        np.zeros(problem.n),
        A_eq=problem.F.T,
        b_eq=problem.e,
        bounds=np.column_stack([problem.lo, problem.hi]),
        method="highs",
    )
    if answer.x is None:
        raise InfeasibleProblemError(
            f"The {problem.k} equality constraints F'a = e cannot be met within the box "
            f"(HiGHS: {answer.message.strip()})."
        )
    return np.clip(answer.x, problem.lo, problem.hi)

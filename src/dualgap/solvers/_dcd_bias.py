"""Equality constraints for coordinate descent: an augmented Lagrangian, and the way back to feasible points.

For a group ``sum_i c_i v_i = r`` the objective gains ``eta (c'v - r) + rho/2 (c'v - r)^2``: the kernel ``K + rho
cc'``, that is, one more feature of value ``sqrt(rho) c_i``, whose weight starts at eta. One item can move alone again.
When a pass violates its conditions by less than half of ``rho |c'v - r|``, eta takes that over (method of
multipliers). At the optimum eta is the unpenalised bias. A constraint is met exactly at every look, by `restore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.solvers._dcd_layout import KINK, LOWER, UPPER, VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.solvers._dcd_items import Items


def penalties(problem: DualQP) -> NDArray[np.float64]:
    """Penalty rho of each group: the mean curvature of its members, so that both parts of a step weigh alike."""
    groups = problem.groups
    assert groups is not None
    curvature = problem.gram.diag()[problem.index] + problem.ridge
    rho = np.ones(groups.rhs.shape[0])
    for g in range(rho.size):
        members = groups.group == g
        mean = float(np.mean(curvature[members] / groups.scale[members] ** 2))
        rho[g] = mean if mean > 0.0 else 1.0
    return rho


def residuals(items: Items, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``c'v - r`` of each group."""
    tied = items.group >= 0
    sums = np.bincount(items.group[tied], weights=(items.scale * items.table[:, VALUE])[tied], minlength=right.shape[0])
    return sums.astype(np.float64, copy=False) - right


def restore(items: Items, right: NDArray[np.float64]) -> None:
    """Meet every constraint: free items take up the residual in proportion to their room, all of them if need be."""
    for g, off in enumerate(residuals(items, right)):
        if off == 0.0:
            continue
        members = np.flatnonzero(items.group == g)
        value, scale = items.table[members, VALUE], items.scale[members]
        lower, upper = items.table[members, LOWER], items.table[members, UPPER]
        # Where there is no bound, an item may take as much as it has, and something if it has nothing.
        upper = np.where(np.isinf(upper), value + np.maximum(np.abs(value), abs(off)), upper)
        lower = np.where(np.isinf(lower), value - np.maximum(np.abs(value), abs(off)), lower)
        reach = np.where(off * scale < 0.0, upper, lower)
        room = np.abs(scale * (reach - value))
        # An item at its kink is held there as if by a bound.
        free = (value > lower) & (value < upper) & ((value != 0.0) | (items.table[members, KINK] == 0.0))
        for chosen in (free, np.ones(members.size, dtype=bool)):
            total = float(room[chosen].sum())
            if total >= abs(off):
                break
        share = min(abs(off) / total, 1.0) if total > 0.0 else 0.0
        moved = value + np.where(chosen, share * (reach - value), 0.0)
        items.table[members, VALUE] = np.clip(moved, lower, upper)

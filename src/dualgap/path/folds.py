"""Folds of cross-validation: who is left out when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def deal(groups: NDArray[np.intp], used: NDArray[np.bool_], folds: int, shuffled: NDArray[np.intp]) -> NDArray[np.intp]:
    """The fold of each sample, -1 for those not used: every group dealt out evenly.

    Parameters
    ----------
    groups : ndarray of int
        Such as the classes: each is spread over the folds by itself.
    used : ndarray of bool
        Who takes part.
    folds : int
        How many.
    shuffled : ndarray of int
        All samples in the order in which they are dealt.
    """
    order = shuffled[used[shuffled]]
    order = order[np.argsort(groups[order], kind="stable")]
    fold = np.full(len(groups), -1, dtype=np.intp)
    # One group goes on where the one before ended, so that folds differ by one sample at most.
    fold[order] = np.arange(order.size) % folds
    return fold

"""A product with the kernel matrix that is kept while its weights move, and a proof of how far it can be off.

A solver that moves a few weights at a time keeps ``K w`` up to date by the rows of these, for a part of the components
at once and for others later or never. Here is the account of it: which weights each component has seen, what was added
to it, and, with the RBF kernel, how far rounded entries can have taken it from the exact product. A certificate then
pays for what components have missed (`at`), where a product anew would make all of it again. It relies on nothing that
a solver says of its gradient: the weights there are in the end are compared with those each component has seen, and the
difference is made up for.

The error of ``sum_m sum_j delta_mj k_ij``, moves m of points j, is at most ``sum_m sum_j |delta_mj| k_ij`` times the
relative error of entries (`kernels.error_bound`). Moves are therefore added up by sign, so that the sum of absolute
values is known as well, and by how far their points are from the centre (`kernels.bounded_product`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap._vector_passes import ascending, nonzero
from dualgap.kernels.bounded_product import bounded_product, by_distance, packing_nothing, sides

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.bounded_product import AddGroups
    from dualgap.kernels.entries import Entries
    from dualgap.kernels.fused_gram import FusedGram

# Packing a column costs about as much as this many of its entries, whatever the number of features.
_PACKING = 80
# Weights that differ by this share of all in sum are the same but for rounding (an entry is at most 1): what they do to
# a product is far below the error of float32 entries.
_ROUNDING = 1e-12
# Times at which components may be left behind, each with a copy of the weights; those of later times begin again with
# the weights of the start. Runs of the benchmarks have up to five.
_MOST_LEFT = 16
# A component is made anew where the weights it has missed are more than this share of all: its error is then less.
_WORTH_CATCHING_UP = 0.8


class RunningProduct:
    """``K w``, component by component.

    Parameters
    ----------
    entries : Entries
        What makes the entries.
    points : ndarray of intp, ascending
        The components there are.
    weights : ndarray, shape (n,)
        w at the start, of all points.
    proof : Proof or None
        Where an account of errors is kept.

    Attributes
    ----------
    weights : ndarray, shape (n,)
        w, as far as it has been told.
    product : ndarray, shape (n,)
        Sums since the start, or from 0 on where `proof` knows the product at the start.
    """

    def __init__(
        self, entries: Entries, points: NDArray[np.intp], weights: NDArray[np.float64], proof: Proof | None
    ) -> None:
        self._entries: Entries | None = entries
        self._points, self._proof = points, proof
        n = weights.size
        self.weights = weights.copy()
        self.product = np.zeros(n) if proof is None else proof.product.copy()
        self._place = np.zeros(n, dtype=np.intp)
        self._place[points] = np.arange(points.size)
        # Of each component 0 where it has seen all moves, else one more than the place of the weights it has seen last.
        self._behind = np.zeros(n, dtype=np.int16)
        self._left: list[NDArray[np.float64]] = [self.weights]
        self._chosen = self._order = points[:0]
        self._whole = False
        self._before, self._old = self.weights, self.product

    def narrow(self, points: NDArray[np.intp], *, whole: bool) -> None:
        """From here on moves reach these components alone (some perhaps named twice); `whole` where they are all."""
        if ascending(points):
            self._chosen = self._order = points
        else:
            self._chosen, self._order = np.unique(points, return_inverse=True)
        self._whole = whole
        self._check(self._chosen)
        self._before, self._old = self.weights, self.product.copy()
        self.weights = self.weights.copy()

    def move(self, points: NDArray[np.intp], delta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Change weights; returns what that adds to each of the components, in the order of `narrow`."""
        sums = self._add(points, delta, self._chosen, keep=self._whole)
        if self._order is self._chosen:  # each point once
            self.weights[points] += delta
            return sums
        np.add.at(self.weights, points, delta)
        return sums[self._order]

    def widen(self, weights: NDArray[np.float64], points: NDArray[np.intp]) -> NDArray[np.float64]:
        """Bring other components up to date with the weights there are now; returns what they have changed by since.

        Components that are neither among `points` nor among those of `narrow` stay behind, for good.
        """
        self._check(points)
        untold = weights - self.weights
        if self._matters(untold, weights):
            moved = nonzero(untold)
            self._add(moved, untold[moved], self._chosen, keep=False)
        elif self._proof is not None:
            self._proof.error[self._chosen] += np.abs(untold).sum()
        # Others have seen nothing since `narrow`.
        others = np.zeros(self.product.size, dtype=bool)
        others[points] = True
        others[self._chosen] = False
        rest = np.flatnonzero(others)
        change = weights - self._before
        moved = nonzero(change)
        self._add(moved, change[moved], rest, keep=False)
        others[self._chosen] = True
        self._leave(np.flatnonzero(~others & (self._behind == 0)))
        self.weights = weights.copy()
        return np.asarray(self.product[points] - self._old[points])

    def end(self) -> None:
        """No more moves: what they need, above all the columns that are packed for their entries, is given up."""
        self._entries = None
        self._old, self._place = self._old[:0].copy(), self._place[:0].copy()

    def at(
        self, weights: NDArray[np.float64], points: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``K[points] @ weights`` from float32 entries, and a bound of the error of each component."""
        proof = self._proof
        assert proof is not None
        product, error = self.product[points], np.zeros(points.size)
        travel = proof.travel[:, points]
        behind = self._behind[points]
        most = _WORTH_CATCHING_UP * np.count_nonzero(weights)
        for state in np.unique(behind):
            here = np.flatnonzero(behind == state)
            change = weights - (self.weights if state == 0 else self._left[state - 1])
            moved = nonzero(change)
            error[here] += proof.error[points[here]]
            if not self._matters(change, weights):
                error[here] += np.abs(change).sum()
            elif moved.size > most:
                product[here], error[here] = bounded_product(proof.gram, weights, points[here])
                travel[:, here] = 0.0
            else:
                add = packing_nothing(proof.gram).accumulate_groups
                outs = proof.sides(add, moved, change[moved], points[here])
                _booked(outs, np.arange(here.size), here, product, travel)
        error += proof.bound_of(travel, points)
        error[~np.isfinite(product)] = np.inf  # weights too large for float32
        return product, error

    def _add(
        self, points: NDArray[np.intp], delta: NDArray[np.float64], rows: NDArray[np.intp], *, keep: bool
    ) -> NDArray[np.float64]:
        """Add moves to components, and to the account; returns what was added."""
        assert self._entries is not None
        # Columns are packed for the occasion: for few rows all points, packed once for all, are less work.
        targets = rows
        if rows is not self._chosen and points.size * (self._points.size - rows.size) < _PACKING * rows.size:
            targets = self._points
        at = np.arange(rows.size) if targets is rows else self._place[rows]
        if self._proof is None:
            sums = np.zeros(targets.size)
            self._entries.accumulate(sums, points, delta, targets, keep=keep)
            self.product[rows] += sums[at]
            return sums[at]
        add = partial(self._entries.accumulate_groups, keep=keep)
        outs = self._proof.sides(add, points, delta, targets)
        return _booked(outs, at, rows, self.product, self._proof.travel)  # type: ignore[no-any-return]

    def _leave(self, points: NDArray[np.intp]) -> None:
        """Components that have seen the weights of the last `narrow` are left behind."""
        if points.size == 0:
            return
        if self._proof is None or len(self._left) == _MOST_LEFT:
            self._behind[points] = 1
            if self._proof is not None:
                self.product[points] = self._proof.begin(points)
            return
        self._left.append(self._before)
        self._behind[points] = len(self._left)

    def _check(self, points: NDArray[np.intp]) -> None:
        if np.any(self._behind[points]):
            raise ValueError("a component that has been left behind cannot be asked for again")

    @staticmethod
    def _matters(change: NDArray[np.float64], weights: NDArray[np.float64]) -> bool:
        """Whether weights differ by more than rounding."""
        return bool(np.abs(change).sum() > _ROUNDING * np.abs(weights).sum())


class Proof:
    """How far the components of a running product can be off.

    Parameters
    ----------
    gram : FusedGram
        What makes the entries, which have an `entry_error`.
    product, error : ndarray, shape (n,)
        The product at the start, and how far it can be off.

    Attributes
    ----------
    error : ndarray, shape (n,)
        What is known of each component beside its travel.
    travel : ndarray, shape (parts, n)
        ``sum_m sum_j |delta_mj| k_ij`` over the points j of a part.
    """

    def __init__(self, gram: FusedGram, product: NDArray[np.float64], error: NDArray[np.float64]) -> None:
        bound = gram.entry_error()
        assert bound is not None
        self.gram, self._bound = gram, bound
        self.product, self._error, self.error = product, error, error.copy()
        self._parts = by_distance(np.arange(product.size), bound)
        self._part = np.empty(product.size, dtype=np.int8)
        for number, part in enumerate(self._parts):
            self._part[part] = number
        self.travel = np.zeros((len(self._parts), product.size))
        # Sums of absolute values of all moves, and their number.
        self._total, self._terms = 0.0, 0

    def sides(
        self,
        add: AddGroups,
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp],
    ) -> NDArray[np.float64]:
        """What moves upwards and downwards add to components, two rows for each part of the points."""
        self._total += float(np.abs(delta).sum())
        self._terms += points.size
        part = self._part[points]
        return sides(add, [np.flatnonzero(part == k) for k in range(len(self._parts))], points, delta, rows)

    def bound_of(self, travel: NDArray[np.float64], points: NDArray[np.intp]) -> NDArray[np.float64]:
        """The error of components that have travelled so far."""
        error = self._terms * 2.0**-52 * np.abs(self.product[points])
        error += self._bound.absolute(self._total, 1.0, self._terms)
        for part, far in zip(self._parts, travel, strict=True):
            error += far * self._bound.relative(points, part, terms=self._terms)
        return error

    def begin(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """Components as they were at the start."""
        self.travel[:, points] = 0.0
        self.error[points] = self._error[points]
        return self.product[points]


@nb.njit(cache=True, nogil=True)
def _booked(outs, at, rows, product, travel):  # type: ignore[no-untyped-def]
    """Add what moves upwards and downwards have done to the product and to the travel of `rows`; returns the sums.

    `at` says where in `outs` each row is.
    """
    sums = np.empty(rows.size)
    for k in range(rows.size):
        r, i = rows[k], at[k]
        total = 0.0
        for part in range(travel.shape[0]):
            above, below = outs[2 * part, i], outs[2 * part + 1, i]
            total += above - below
            travel[part, r] += above + below
        product[r] += total
        sums[k] = total
    return sums

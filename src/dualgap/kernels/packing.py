"""Rows of dense and CSR matrices in the order in which the tiles of `kernels.fused` read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap.kernels._tile_entries import TILE_ROWS
from dualgap.kernels.prefetch import prefetch
from dualgap.kernels.threads import share_parts
from dualgap.kernels.transposition import SIDE, turn_rows, turn_square

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A block of features of a tile (256 bytes each) and the sums of the rows share a first-level cache of 48 KB: 32 KB and
# 12 KB. More rows use each feature more often, more features mean fewer, longer runs (24 to 96 and 32 to 256 tried).
FEATURES, SPARSE_ROWS = 128, 48
# Numbers copied at a time, whether they are needed or not: a register of float32.
_RUN = 16
# Rows that are copied are asked for so many ahead, two runs of each: of 50 000 rows of covtype, 1000 take 98
# microseconds in place of 232, and 5000 120 in place of 657.
_AHEAD = 16
# Elements of rows below which threads are not woken: some 50 microseconds' worth.
_WORTH_THREADS = 50_000


@nb.njit(cache=True, nogil=True)
def pack_dense(X, points, centre, scale, half, width, first, last, packed, packed_half):  # type: ignore[no-untyped-def]
    """Pack rows of a dense matrix, `width` together, feature by feature; missing ones are zero."""
    features = X.shape[1]
    for t in range(first, last):
        present = min(width, points.size - t * width)
        if present < width:
            packed[t * features * width : (t + 1) * features * width] = 0
        packed_half[t * width : (t + 1) * width] = 0
        for lane in range(present):
            packed_half[t * width + lane] = half[points[t * width + lane]]
        for lane in range(_turn_lanes(X, points, centre, scale, width, t, present, packed), present):
            row = points[t * width + lane]
            for k in range(features):
                packed[(t * features + k) * width + lane] = (X[row, k] - centre[k]) * scale


@nb.njit(cache=True, nogil=True)
def _turn_lanes(X, points, centre, scale, width, t, present, packed):  # type: ignore[no-untyped-def]
    """Pack as many of the `present` lanes of group `t` as fill whole squares; returns how many."""
    features, first = X.shape[1], t * width
    straight = X.strides[1] == X.itemsize and points.strides[0] == points.itemsize
    if features < SIDE or not straight:
        return 0
    # The last square of a row may begin within the one before: the same numbers are then written twice.
    if width == TILE_ROWS and present == width:
        for begin in range(0, features, SIDE):
            k = min(begin, features - SIDE)
            turn_rows(X, points, first, k, centre, scale, packed, (t * features + k) * width, width)
        return width
    whole = present // SIDE * SIDE
    # A few features of all lanes at a time: what is written stays in cache until its lines are full.
    for block in range(0, features, 4 * SIDE):
        for lane in range(0, whole, SIDE):
            for begin in range(block, min(features, block + 4 * SIDE), SIDE):
                k = min(begin, features - SIDE)
                place = (t * features + k) * width + lane
                turn_square(X, points, first + lane, k, centre, scale, packed, place, width)
    return whole


@nb.njit(cache=True, nogil=True)
def pack_sparse(data, indices, indptr, points, features, scale, half, width, first, last, packed, packed_half):  # type: ignore[no-untyped-def]
    """Pack rows of a CSR matrix, or nonzeros that are kept, as `pack_dense` does."""
    for t in range(first, last):
        # Tile by tile: each is still in cache when its nonzeros are written.
        packed[t * features * width : (t + 1) * features * width] = 0
        for lane in range(width):
            j = t * width + lane
            packed_half[j] = 0
            if j < points.size:
                _ask_for(data, indices, indptr[points[min(j + _AHEAD, points.size - 1)]])
                packed_half[j] = half[points[j]]
                for p in range(indptr[points[j]], indptr[points[j] + 1]):
                    packed[(t * features + indices[p]) * width + lane] = data[p] * scale


@nb.njit(cache=True, nogil=True, inline="always")
def _ask_for(values, which, start):  # type: ignore[no-untyped-def]
    """Have the nonzeros from `start` on in cache soon: two runs of them."""
    for run in range(2):
        prefetch(values, start + run * _RUN)
        prefetch(which, start + run * _RUN)


@nb.njit(cache=True, nogil=True)
def sparse_rows(data, indices, indptr, points, features, scale, values, which, starts):  # type: ignore[no-untyped-def]
    """Put the nonzeros of rows of a CSR matrix into the order in which `contract_sparse` uses them."""
    blocks = (features + FEATURES - 1) // FEATURES
    at = np.empty(SPARSE_ROWS, dtype=np.int64)
    p = s = 0
    for begin in range(0, points.size, SPARSE_ROWS):
        for r in range(min(SPARSE_ROWS, points.size - begin)):
            at[r] = indptr[points[begin + r]]
        for block in range(blocks):
            for r in range(SPARSE_ROWS):
                starts[s] = p
                s += 1
                if begin + r >= points.size:
                    continue
                stop = indptr[points[begin + r] + 1]
                while at[r] < stop and indices[at[r]] < (block + 1) * FEATURES:
                    values[p] = data[at[r]] * scale
                    which[p] = indices[at[r]]
                    p += 1
                    at[r] += 1
    starts[s] = p


@nb.njit(cache=True, nogil=True)
def number_features(indices, indptr, points, number):  # type: ignore[no-untyped-def]
    """Number the features that some rows of a CSR matrix have, in order, others -1; returns how many there are."""
    number[:] = -1
    for r in range(points.size):
        for p in range(indptr[points[r]], indptr[points[r] + 1]):
            number[indices[p]] = 0
    count = 0
    for k in range(number.size):
        if number[k] == 0:
            number[k] = count
            count += 1
    return count


@nb.njit(cache=True, nogil=True)
def renumbered(data, indices, indptr, points, number, new_data, new_indices, new_indptr):  # type: ignore[no-untyped-def]
    """Rows of a CSR matrix with the numbered features alone, under their numbers, as a CSR matrix of their own."""
    at = 0
    for r in range(points.size):
        new_indptr[r] = at
        for p in range(indptr[points[r]], indptr[points[r] + 1]):
            feature = number[indices[p]]
            if feature >= 0:
                new_data[at] = data[p]
                new_indices[at] = feature
                at += 1
    new_indptr[points.size] = at


@nb.njit(cache=True, nogil=True)
def compressed_rows(X, points, centre, scale, first, last, begin, end, values, which, starts):  # type: ignore[no-untyped-def]
    """`sparse_rows` of a dense matrix with many features at the centre: chunks `first` to `last` of `SPARSE_ROWS`.

    Their nonzeros go to places `begin` to `end`; where they begin is written to `starts`, the last end to the next.
    """
    features = X.shape[1]
    blocks = (features + FEATURES - 1) // FEATURES
    p, s = begin, first * blocks * SPARSE_ROWS
    for chunk in range(first, last):
        for block in range(blocks):
            for r in range(chunk * SPARSE_ROWS, (chunk + 1) * SPARSE_ROWS):
                starts[s] = p
                s += 1
                if r >= points.size:
                    continue
                row, head, tail = points[r], block * FEATURES, min(features, (block + 1) * FEATURES)
                # Written in any case, to be written over if zero: no branch can be guessed wrong. There is room for
                # that as long as there are more nonzeros to come than features of this row.
                if p + tail - head <= end:
                    for k in range(head, tail):
                        apart = X[row, k] - centre[k]
                        values[p] = apart * scale
                        which[p] = k
                        p += apart != 0
                else:
                    for k in range(head, tail):
                        apart = X[row, k] - centre[k]
                        if apart != 0:
                            values[p] = apart * scale
                            which[p] = k
                            p += 1
    starts[s] = p


@nb.njit(cache=True, nogil=True)
def row_nonzeros(X, centre, first, last, counts):  # type: ignore[no-untyped-def]
    """Features in which rows `first` to `last` of a dense matrix are not at the centre, each."""
    for r in range(first, last):
        total = 0
        for k in range(X.shape[1]):
            total += X[r, k] != centre[k]
        counts[r] = total


def room_for_starts(count: int, features: int) -> NDArray[np.int64]:
    """Room for where the nonzeros of `count` rows begin, block by block of features, and where the last ones end."""
    chunks, blocks = -(-count // SPARSE_ROWS), -(-features // FEATURES)
    return np.empty(chunks * blocks * SPARSE_ROWS + 1, dtype=np.int64)


def nonzeros_in_order(
    X: NDArray[Any],
    counts: NDArray[np.int64],
    points: NDArray[np.intp],
    centre: NDArray[np.float64],
    scale: Any,
    dtype: np.dtype[Any],
    threads: int,
    beyond: int = 0,
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
    """Values, features and starts of the nonzeros of some rows of a dense matrix, in the order of their use.

    Values are those beside the centre. `counts` are the nonzeros of all rows, each (`row_nonzeros`). After the last
    there is room for so many `beyond`, zeros.
    """
    chunks = -(-len(points) // SPARSE_ROWS)
    ends = np.zeros(chunks + 1, dtype=np.int64)
    if chunks:
        np.cumsum(np.add.reduceat(counts[points], np.arange(chunks) * SPARSE_ROWS), out=ends[1:])
    total = int(ends[-1])
    values, which = np.empty(total + beyond, dtype=dtype), np.empty(total + beyond, dtype=np.int32)
    values[total:], which[total:] = 0, 0
    starts = room_for_starts(len(points), X.shape[1])
    starts[-1] = ends[-1]
    work = len(points) * X.shape[1]
    share_parts(
        lambda first, last: compressed_rows(
            X, points, centre, scale, first, last, ends[first], ends[last], values, which, starts
        ),
        chunks,
        -(-chunks // threads) if work >= _WORTH_THREADS else max(chunks, 1),
        threads,
    )
    return values, which, starts


class KeptNonzeros:
    """The nonzeros of all rows of a dense matrix of at most `FEATURES` features, from which those of some are copied.

    Finding them takes 0.1 microseconds a row of 54 features, a dozen of which are not zero, and 0.4 where the row comes
    from memory; copying takes 0.03.

    Attributes
    ----------
    values, which, starts : ndarray
        All nonzeros and their features, row after row, and where those of each row begin.
    """

    def __init__(
        self,
        X: NDArray[Any],
        counts: NDArray[np.int64],
        centre: NDArray[np.float64],
        scale: Any,
        dtype: np.dtype[Any],
        threads: int,
    ):
        self._counts = counts
        everything = np.arange(X.shape[0])
        # Rows are copied by whole runs of `_RUN`.
        self.values, self.which, self.starts = nonzeros_in_order(
            X, counts, everything, centre, scale, dtype, threads, beyond=_RUN
        )

    def where(self, points: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
        """All values and features, and where among them each of these rows begins and ends, side by side."""
        ends = np.empty((len(points), 2), dtype=np.int64)
        ends[:, 0], ends[:, 1] = self.starts[points], self.starts[points + 1]
        return self.values, self.which, ends

    def of(self, points: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
        """As `nonzeros_in_order`."""
        total = int(self._counts[points].sum())
        values, which = np.empty(total + _RUN, self.values.dtype), np.empty(total + _RUN, dtype=np.int32)
        starts = room_for_starts(len(points), FEATURES)
        _copied_rows(self.values, self.which, self.starts, points, values, which, starts)
        return values[:total], which[:total], starts


@nb.njit(cache=True, nogil=True)
def _copied_rows(kept_values, kept_which, kept_starts, points, values, which, starts):  # type: ignore[no-untyped-def]
    """Rows one after another; what is copied beyond the end of one is written over by the next."""
    p = 0
    for r in range(points.size):
        _ask_for(kept_values, kept_which, kept_starts[points[min(r + _AHEAD, points.size - 1)]])
        begin, end = kept_starts[points[r]], kept_starts[points[r] + 1]
        starts[r] = p
        for at in range(0, end - begin, _RUN):
            for k in range(_RUN):
                values[p + at + k] = kept_values[begin + at + k]
            for k in range(_RUN):
                which[p + at + k] = kept_which[begin + at + k]
        p += end - begin
    starts[points.size :] = p

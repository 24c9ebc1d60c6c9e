"""Rows of dense and CSR matrices in the order in which the tiles of `kernels.fused` read them."""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels.prefetch import prefetch_entry

# A block of features of a tile (256 bytes each) and the sums of the rows share a first-level cache of 48 KB: 32 KB and
# 12 KB. More rows use each feature more often, more features mean fewer, longer runs (24 to 96 and 32 to 256 tried).
FEATURES, SPARSE_ROWS = 128, 48
# Rows ahead that are asked for while one is packed: points in no order wait for memory longer than packing takes.
_AHEAD = 8


@nb.njit(cache=True, nogil=True)
def pack_dense(X, points, centre, scale, half, width, first, last, packed, packed_half):  # type: ignore[no-untyped-def]
    """Pack rows of a dense matrix, `width` together, feature by feature; missing ones are zero."""
    features = X.shape[1]
    line = 64 // X.itemsize
    for t in range(first, last):
        present = min(width, points.size - t * width)
        if present < width:
            packed[t * features * width : (t + 1) * features * width] = 0
        packed_half[t * width : (t + 1) * width] = 0
        for lane in range(present):
            packed_half[t * width + lane] = half[points[t * width + lane]]
        # A few features of all lanes at a time: what is written stays in cache until its lines are full.
        for begin in range(0, features, 32):
            end = min(features, begin + 32)
            for lane in range(present):
                row = points[t * width + lane]
                later = points[min(t * width + lane + _AHEAD, points.size - 1)]
                for k in range(begin, end, line):
                    prefetch_entry(X, later, k)
                prefetch_entry(X, later, end - 1)
                for k in range(begin, end):
                    packed[(t * features + k) * width + lane] = (X[row, k] - centre[k]) * scale


@nb.njit(cache=True, nogil=True)
def pack_sparse(data, indices, indptr, points, features, scale, half, width, first, last, packed, packed_half):  # type: ignore[no-untyped-def]
    """Pack rows of a CSR matrix as `pack_dense` does."""
    packed[first * features * width : last * features * width] = 0
    for t in range(first, last):
        for lane in range(width):
            j = t * width + lane
            packed_half[j] = 0
            if j < points.size:
                packed_half[j] = half[points[j]]
                for p in range(indptr[points[j]], indptr[points[j] + 1]):
                    packed[(t * features + indices[p]) * width + lane] = data[p] * scale


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
def compressed_rows(X, points, scale, values, which, starts):  # type: ignore[no-untyped-def]
    """As `sparse_rows`, from a dense matrix with many zeros; `values` and `which` have room for one more."""
    features = X.shape[1]
    blocks = (features + FEATURES - 1) // FEATURES
    p = s = 0
    for begin in range(0, points.size, SPARSE_ROWS):
        for block in range(blocks):
            for r in range(begin, begin + SPARSE_ROWS):
                starts[s] = p
                s += 1
                if r < points.size:
                    row = points[r]
                    for k in range(block * FEATURES, min(features, (block + 1) * FEATURES)):
                        # Written in any case, to be written over if zero: no branch can be guessed wrong.
                        values[p] = X[row, k] * scale
                        which[p] = k
                        p += X[row, k] != 0
    starts[s] = p


@nb.njit(cache=True, nogil=True)
def count_nonzeros(X, points):  # type: ignore[no-untyped-def]
    """Nonzeros of some rows of a dense matrix."""
    total = 0
    for r in range(points.size):
        for k in range(X.shape[1]):
            total += X[points[r], k] != 0
    return total

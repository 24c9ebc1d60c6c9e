"""Data that are whole multiples of one step: ``x = low + k step`` with k from 0 to 255 (or more), found and checked.

A few rows tell whether it is worth looking (most data have more different values in them) and what the step would be;
one pass over all rows then checks every value and adds up ``|k|^2`` on the way.

Where 16-bit numbers can be multiplied, levels beyond 255 are such numbers, up to 32 767. Where only bytes can, they are
two digits to the base of 128, ``k = 128 h + l``, up to 16 383. Three products of bytes are then as good as the
four of all pairs of digits, because ``h + l`` is a byte, too::

    k k' = 2^14 h h' + 2^7 ((h + l)(h' + l') - h h' - l l') + l l'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.kernels._matrix_unit_packing import DIGIT_BITS, LEVEL_FEATURES, PAIR_PLANES, TWO_DIGIT_PLANES, put_level
from dualgap.kernels._tile_entries import EXPONENT
from dualgap.kernels.error_bound import EntryError
from dualgap.kernels.matrix_unit import EXACT_LEVEL_ERROR, LEVEL_ERROR
from dualgap.kernels.threads import share_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.tile_source import Formula

# The largest level of one byte, of two digits, and of a signed 16-bit number.
ONE_BYTE, TWO_DIGITS, SIXTEEN_BITS = 255, (1 << 2 * DIGIT_BITS) - 1, (1 << 15) - 1
# Bytes of levels up to each of these.
_PLANES = {ONE_BYTE: 1, SIXTEEN_BITS: PAIR_PLANES, TWO_DIGITS: TWO_DIGIT_PLANES}
# The largest squared norm: products and squared distances of such rows are below 2^31, and levels are not negative.
_LARGEST_NORM = 2.0**30 - 1.0
# Values looked at before all are: sorting them takes a millisecond or two.
_SAMPLED = 20_000
# The least gap between values of a sample is at most so many steps; and how much further each look at it goes.
_PARTS, _FURTHER = 4, 8.0
# Rows checked by a thread at a time.
_ROWS = 512


@dataclass(frozen=True)
class Levels:
    """``x = low + k step``.

    Attributes
    ----------
    low, step : float
        The numbers in it.
    norms : ndarray of int32
        ``|k|^2`` of the rows.
    sums : ndarray of int32
        ``1'k`` of the rows.
    error : float
        The most that a row is off, as a share of its norm.
    bytes : ndarray of uint8, shape (n, `planes` times features rounded up to whole steps)
        The k themselves (see `_matrix_unit_packing.put_level`), where they are kept; else without rows.
    planes : int
        Bytes of a level: 1, 2 for a 16-bit number, or 3 for two digits and their sum.
    """

    low: float
    step: float
    norms: NDArray[np.int32]
    sums: NDArray[np.int32]
    error: float
    bytes: NDArray[np.uint8]
    planes: int = 1

    @property
    def exact(self) -> bool:
        """Whether the data are off their levels by rounding in float64 alone."""
        return self.error <= EXACT_LEVEL_ERROR

    def factor(self, formula: Formula) -> float:
        """What turns whole sums into those of scaled data, or whole squared distances into exponents."""
        squared = (formula.scale * self.step) ** 2
        return -0.5 * squared if formula.formula == EXPONENT else squared

    def entry_error(self, formula: Formula) -> EntryError | None:
        """How far float32 entries of the RBF kernel can be off."""
        half = 0.5 * (formula.scale * self.step) ** 2 * self.norms.astype(np.float64)
        return EntryError.of_distances(self.error / (1.0 - self.error), half)


def find_levels(X: Any, *, shifted: bool, threads: int, budget: int = 0, most: int = ONE_BYTE) -> Levels | None:
    """The levels of a dense or CSR matrix; None where there are none.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The data.
    shifted : bool
        Whether `low` may be other than 0: distances do not feel it, products do (and CSR matrices have zeros).
    threads : int
        Threads for the pass over all data.
    budget : int
        Bytes that the levels may take; they are not kept where they take more.
    most : int
        The largest level: `ONE_BYTE`, `TWO_DIGITS` or `SIXTEEN_BITS`, which says how larger ones than a byte are kept.
    """
    shifted = shifted and not sp.issparse(X)
    seen = np.unique(_sample(X).astype(np.float64))
    if seen.size == 0 or seen.size > most + 1 or not np.all(np.isfinite(seen)):
        return None
    # A sample nearly always has the least of all values; where it has not, the pass over all data ends early.
    low = float(seen[0]) if shifted else 0.0
    steps = _steps(seen - low, most)
    found = _first_checked(X, low, steps, threads, budget)
    if found is None and shifted and steps:
        low = float(X.min())
        steps = _steps(seen - low, most) if np.isfinite(low) and low < seen[0] else []
        found = _first_checked(X, low, steps, threads, budget)
    return found


def _steps(values: NDArray[np.float64], most: int) -> list[tuple[int, float]]:
    """Steps that these values may be whole multiples of, each with the largest level that it is for."""
    if values[0] < 0.0:
        return []
    found = [(ONE_BYTE, common_step(values, ONE_BYTE))]
    if most > ONE_BYTE:
        found.append((most, _finest_step(values, most)))
    return [(most, step) for most, step in found if step is not None]


def _first_checked(X: Any, low: float, steps: list[tuple[int, float]], threads: int, budget: int) -> Levels | None:
    """The levels for the first of some steps of which all values are whole multiples."""
    for most, step in steps:
        found = _checked(X, low, step, most, threads, budget)
        if found is not None:
            return found
    return None


def _checked(X: Any, low: float, step: float, most: int, threads: int, budget: int) -> Levels | None:
    """The levels of all values, where each is near to one."""
    planes = _PLANES[most]
    norms, sums = np.zeros(X.shape[0], dtype=np.int32), np.zeros(X.shape[0], dtype=np.int32)
    width = planes * -(-X.shape[1] // LEVEL_FEATURES) * LEVEL_FEATURES
    kept = np.zeros((X.shape[0] if X.shape[0] * width <= budget else 0, width), dtype=np.uint8)
    errors = np.zeros(-(-X.shape[0] // _ROWS))

    def check(begin: int, end: int) -> None:
        # Once one part has failed the others need not be looked at.
        if np.all(errors <= LEVEL_ERROR):
            errors[begin // _ROWS] = (
                _check_sparse(X.data, X.indices, X.indptr, step, most, planes, begin, end, norms, sums, kept)
                if sp.issparse(X)
                else _check_dense(X, low, step, most, planes, begin, end, norms, sums, kept)
            )  # fmt: skip

    share_parts(check, X.shape[0], _ROWS, threads)
    error = float(errors.max(initial=0.0))
    return Levels(low, step, norms, sums, error, kept, planes) if error <= LEVEL_ERROR else None


def _sample(X: Any) -> NDArray[Any]:
    """Values of rows here and there."""
    if sp.issparse(X):
        return np.asarray(X.data[:: max(1, X.nnz // _SAMPLED)])
    rows = max(1, _SAMPLED // X.shape[1])
    return np.asarray(X[:: max(1, X.shape[0] // rows)]).reshape(-1)


def common_step(values: NDArray[np.float64], most: int = ONE_BYTE) -> float | None:
    """The largest step that all values are whole multiples of, nearly; None if more than `most` make the largest one.

    Euclid's algorithm on rounded numbers: what is left over from a division is taken for zero below a quarter of the
    least step that would do. Whether the values really are multiples is for the pass over all data to say.
    """
    largest = float(values.max())
    if not largest > 0.0 or not np.isfinite(largest):
        return None
    nothing = largest / most / 4.0
    step = largest
    while True:
        values = values[np.abs(values - np.round(values / step) * step) > nothing]
        count = round(largest / step)
        if count > most:
            return None
        if values.size == 0:
            return largest / count
        other = float(values[0])
        while other > nothing:
            step, other = other, abs(step - round(step / other) * other)


def _finest_step(values: NDArray[np.float64], most: int) -> float | None:
    """As `common_step` for many levels, where each division of Euclid's would multiply the rounding of the values.

    With many values the least gap between two of them is the step, or a small multiple of it; what it is off becomes
    less and less as more and larger values are taken for multiples.
    """
    largest = float(values.max())
    if not largest > 0.0 or not np.isfinite(largest):
        return None
    nothing = largest / most / 4.0
    gaps = np.diff(values, prepend=0.0)
    least = float(gaps[gaps > nothing].min())
    for part in range(1, _PARTS + 1):
        step, reach = least / part, least
        while reach < largest:
            reach *= _FURTHER
            some = values[values <= reach]
            multiples = np.round(some / step)
            if np.any(multiples):
                step = float(some @ multiples / (multiples @ multiples))
        multiples = np.round(values / step)
        if np.all(np.abs(values - multiples * step) <= nothing):
            count = round(largest / step) // int(np.gcd.reduce(multiples.astype(np.int64)))
            return largest / count if count <= most else None
    return None


@nb.njit(cache=True, nogil=True)
def _error(total, off, step):  # type: ignore[no-untyped-def]
    """How far a row is off its levels; infinity where its norm is too large."""
    if total > _LARGEST_NORM:
        return np.inf
    if off > 0.0:
        return np.inf if total == 0.0 else np.sqrt(off / total) / step
    return 0.0


@nb.njit(cache=True, nogil=True)
def _check_dense(X, low, step, most, planes, begin, end, norms, sums, kept):  # type: ignore[no-untyped-def]
    """How far rows `begin` to `end` are off their levels, infinity where there are none.

    ``|k|^2`` goes to `norms`, ``1'k`` to `sums`, and k to `kept` where that has room.
    """
    worst = 0.0
    features = X.shape[1]
    levels = np.empty(features, dtype=np.int32)
    for i in range(begin, end):
        found, off, total, count = levels_of(X[i], low, step, most, levels)
        if not found:
            return np.inf
        if kept.shape[0] > 0:
            keep_levels(levels, planes, kept[i])
        worst = max(worst, _error(total, off, step))
        if worst == np.inf:
            return worst
        norms[i], sums[i] = np.int32(total), np.int32(count)
    return worst


@nb.njit(cache=True, nogil=True, fastmath={"reassoc"})
def levels_of(row, low, step, most, levels):  # type: ignore[no-untyped-def]
    """Whether all values of a row are near to levels, by how much they are off, ``|k|^2`` and ``1'k``.

    Without a way out of the loop: it is then one of vector instructions.
    """
    outside, off, total, count = 0, 0.0, 0.0, 0.0
    for k in range(levels.size):
        value = np.float64(row[k]) - low
        level = np.floor(value / step + 0.5)
        inside = (level >= 0.0) & (level <= most)  # of NaN neither
        outside += 0 if inside else 1
        level = level if inside else 0.0
        apart = value - level * step
        off += apart * apart
        total += level * level
        count += level
        levels[k] = np.int32(level)
    return outside == 0, off, total, count


@nb.njit(cache=True, nogil=True)
def keep_levels(levels, planes, kept):  # type: ignore[no-untyped-def]
    """The levels of a row as bytes."""
    if planes > 1:
        for k in range(levels.size):
            put_level(kept, k, levels[k], planes)
    else:
        for k in range(levels.size):
            kept[k] = np.uint8(levels[k])


@nb.njit(cache=True, nogil=True)
def _check_sparse(data, indices, indptr, step, most, planes, begin, end, norms, sums, kept):  # type: ignore[no-untyped-def]
    """As `_check_dense`, for rows of a CSR matrix."""
    worst = 0.0
    for i in range(begin, end):
        total = off = count = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[p])
            level = np.floor(value / step + 0.5)
            if not (level >= 0.0 and level <= most):
                return np.inf
            if kept.shape[0] > 0:
                put_level(kept[i], indices[p], np.int32(level), planes)
            apart = value - level * step
            total += level * level
            count += level
            off += apart * apart
        worst = max(worst, _error(total, off, step))
        if worst == np.inf:
            return worst
        norms[i], sums[i] = np.int32(total), np.int32(count)
    return worst

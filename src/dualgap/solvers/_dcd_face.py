"""Face steps of coordinate descent: conjugate gradients over the items that are free, from time to time.

Passes soon know which items are at their bounds; what is left is a system of linear equations over the free ones, F::

    min over d of  g'd + 1/2 d'H d,    H = S_F (A_F A_F' + constant) S_F + ridge + rho (groups),    d = 0 outside F

and coordinate descent is the slowest way to solve it where rows differ in length or point the same way (counts of
words: thousands of passes). Conjugate gradients need some hundred products with H, each about as dear as a pass over
F. Items at bounds that want to leave them are counted as free. The step is then cut back to the box, item by item, and
taken as far along the segment to that point as the objective falls (as in GPCG of More and Toraldo 1991, with passes of
coordinate descent in place of its projected gradients): it never raises the objective.

Without ridge H may be singular: the objective is then linear along some directions, down which the solution lies where
bounds stop it. A proximal term makes the equations well posed and sends such a direction about as far as the box is
wide::

    ridge_i = mu where there is none,    mu = max |g| / width of the box

so that mu falls with the slopes, and the steps become those of Newton's method.

The rows of F are gathered once, with the columns that they use numbered anew: products then run in the cache. No
preconditioner: on the last face of news20 (counts of words, squared hinge, C=10) scaling with the diagonal of H took
about twice as many products (long rows are few, and outliers of a spectrum cost conjugate gradients little), a
symmetric Gauss-Seidel sweep no fewer than that. On rows of length one the diagonal changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap.kernels.linear_rows import CHUNK, add_row, dot_row
from dualgap.solvers._dcd_layout import KINK, LINEAR, LOWER, RIDGE, SIGN, UPPER, VALUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.kernels.linear_rows import Rows
    from dualgap.solvers._dcd_items import Items

_SUMS = {"reassoc", "contract", "nsz"}
# Residual at which conjugate gradients end, relative to the first: the face is not yet the last one. Without ridge 0.1,
# 0.2, 0.3 take news20 166, 161, 172 ms (C=10, gap 0.3) and 101, 89, 80 (C=1, 1e-2), reuters 16.9, 14.7, 14.5 (C=10,
# 5.5e-3); with one, 0.2 is no better than 0.1 (0.89 to 1.08 times its work). Means of six seeds; rows, entries and
# looks are counted at their measured prices.
_RESIDUAL, _RESIDUAL_WITHOUT_RIDGE = 0.1, 0.2
# Entries that all face steps may read for each that passes have read. With 1, 2, 4, 8, 16 news20 (counts of words)
# takes 0.89, 0.46, 0.35, 0.33, 0.43 s to a gap of 1e-6 with C=10, and from 2 on 15.7, 3.9, 1.0, 1.1 s with C=1000. It
# is no less after a step that brought less for an entry than the passes since, for these live on what it has left: with
# such a rule C=1000 took 24 s to a gap of 0.1, without 0.3. Without ridge steps are rougher, and more passes pay: 4, 8,
# 16 take news20 0.69, 0.76, 0.71 s, reuters 0.10, 0.12, 0.11 (means of five seeds, hinge, C=10).
_SHARE, _SHARE_WITHOUT_RIDGE = 8.0, 4.0
# The proximal weight, as a multiple of the largest slope over the width of the box: 0.5, 1, 2 take news20 135, 161, 216
# ms (C=10, gap 0.3) and 143, 130, 133 (C=1, 1e-6), reuters 57, 48, 49 (C=100, 1e-6), counted as above.
_PROXIMAL = 1.0
# How often a step that the box has spoilt is halved.
_HALVES = 12
# Where in the state of conjugate gradients the present and the first squared residual are.
_NOW, _FIRST = 0, 1
# Where in what compiled functions take of a face its items are.
_PART = 4


class Faces:
    """The face steps of one run.

    Parameters
    ----------
    rows : Rows
        Rows of the factor.
    items : Items
        The items, whose values are changed.
    constant : float
        Added to the products of rows.
    rho : ndarray
        Penalties of the groups.

    Attributes
    ----------
    entries : float
        Entries read so far.
    """

    def __init__(self, rows: Rows, items: Items, constant: float, rho: NDArray[np.float64]) -> None:
        self.rows, self.items, self.constant, self.rho = rows, items, constant, rho
        self.number = np.full(rows.d if rows.indptr.size and not rows.in_blocks else 0, -1, dtype=np.int32)
        self.entries = 0.0
        ridged = bool(np.all(items.table[:, RIDGE] > 0.0))
        self.share = _SHARE if ridged else _SHARE_WITHOUT_RIDGE
        self.residual = _RESIDUAL if ridged else _RESIDUAL_WITHOUT_RIDGE

    def step(
        self,
        slack: NDArray[np.float64],
        w: NDArray[np.float64],
        extra: NDArray[np.float64],
        passed: float,
        stop: Callable[[], bool],
    ) -> bool:
        """One step where it is due, w and `extra` kept up to date.

        Parameters
        ----------
        slack : ndarray, shape (2, m)
            From `survey`: negative for items that are free or want to be.
        w, extra : ndarray
            Weights, and what stands beside them.
        passed : float
            Entries that passes have read.
        stop : callable
            Asked between chunks of work.

        Returns
        -------
        bool
            False where `stop` said so: the step has then been taken as far as it was known.
        """
        most = self.share * passed - self.entries
        chosen = self._free(slack)
        face, columns, entries = self._gathered(chosen)
        if chosen.size == 0 or most < 2.0 * entries:
            return True
        weights = w if columns is None else w[columns]
        slope, low, high = (np.empty(chosen.size) for _ in range(3))
        begin(*face, weights, extra, slope, low, high)
        move, image, sums = np.zeros(chosen.size), np.empty(weights.size), np.zeros(extra.size)
        going = self._conjugate(_well_posed(face, slope, low, high), slope, move, image, sums, most, entries, stop)
        bounded_step(*face, slope, low, high, move, image, sums)
        self.entries += entries
        self.items.table[chosen, VALUE] = face[_PART][:, VALUE]
        if columns is None:
            w += image
        else:
            w[columns] += image
        extra += sums
        return going

    def _free(self, slack: NDArray[np.float64]) -> NDArray[np.intp]:
        """Items that are free or want to leave a bound; one at a kink has no slope."""
        table = self.items.table
        chosen = np.flatnonzero((slack[0] < 0.0) | (slack[1] < 0.0))
        some = table[chosen]
        return chosen[((some[:, KINK] == 0.0) | (some[:, VALUE] != 0.0)) & (some[:, LOWER] < some[:, UPPER])]

    def _gathered(self, chosen: NDArray[np.intp]) -> tuple[tuple[Any, ...], NDArray[np.int32] | None, int]:
        """What compiled functions take of a face, the columns it uses (None: all), and its entries."""
        rows, items = self.rows, self.items
        points = items.point[chosen]
        lengths = rows.lengths(points)
        entries = int(lengths.sum())
        columns: NDArray[np.int32] | None = None
        arrays, places = rows.arrays, points
        if self.number.size:
            pointers = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
            # Columns are numbered below their number: what held them before holds them now.
            short = np.uint16 if rows.indices.dtype == np.uint16 else np.int32
            indices, values = np.empty(entries, dtype=short), np.empty(entries, dtype=rows.values.dtype)
            columns = np.empty(min(rows.d, entries), dtype=np.int32)
            used = gather(*rows.arrays, points, pointers, self.number, indices, values, columns)
            columns, arrays, places = columns[:used], (pointers, indices, values), np.arange(chosen.size)
        group, scale = (part[chosen] if part.size else part for part in (items.group, items.scale))
        return (*arrays, places, items.table[chosen], group, scale, self.constant, self.rho), columns, entries

    def _conjugate(
        self,
        face: tuple[Any, ...],
        slope: NDArray[np.float64],
        move: NDArray[np.float64],
        image: NDArray[np.float64],
        sums: NDArray[np.float64],
        most: float,
        entries: int,
        stop: Callable[[], bool],
    ) -> bool:
        """Conjugate gradients into `move`, within `most` entries; False where `stop` said so."""
        residual = -slope
        direction, bent = residual.copy(), np.empty(slope.size)
        state = np.full(2, float(residual @ residual))
        left, each = int(most / (2.0 * entries)), max(1, CHUNK // (2 * entries))
        while left > 0:
            wanted = min(left, each)
            done = conjugate_steps(*face, move, residual, direction, bent, image, sums, state, wanted, self.residual)
            self.entries += 2.0 * entries * done
            left -= done
            if done < wanted:
                break
            if left > 0 and stop():
                return False
        return True


def _well_posed(
    face: tuple[Any, ...], slope: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[Any, ...]:
    """The face with a proximal term in place of a ridge where there is none."""
    part = face[_PART]
    flat = part[:, RIDGE] == 0.0
    if not flat.any():
        return face
    width = (high - low)[flat]
    width = np.where(np.isfinite(width), width, 1.0 + np.abs(part[flat, VALUE]))
    softened = part.copy()
    softened[flat, RIDGE] = _PROXIMAL * float(np.abs(slope).max()) / float(np.median(width))
    return (*face[:_PART], softened, *face[_PART + 1 :])


@nb.njit(cache=True, nogil=True)
def gather(indptr, indices, values, points, ptr, number, ind, val, columns):  # type: ignore[no-untyped-def]
    """Copy rows, their columns numbered in the order of appearance; returns how many there are. `number` stays -1."""
    used = 0
    for k in range(points.size):
        begin, to = indptr[points[k]], ptr[k]
        for q in range(ptr[k + 1] - to):
            column = indices[begin + q]
            if number[column] < 0:
                number[column] = used
                columns[used] = column
                used += 1
            ind[to + q] = number[column]
            val[to + q] = values[begin + q]
    for c in range(used):
        number[columns[c]] = -1
    return used


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def begin(ptr, ind, val, at, part, group, scale, constant, rho, w, extra, slope, low, high):  # type: ignore[no-untyped-def]
    """Slopes and room of the items of a face; where an item has a kink, it ends there."""
    for k in range(at.size):
        value, kink = part[k, VALUE], part[k, KINK]
        slope[k] = part[k, SIGN] * (dot_row(ptr, ind, val, at[k], w) + extra[0]) + part[k, LINEAR]
        slope[k] += part[k, RIDGE] * value + (kink if value > 0.0 else 0.0)
        if group.size > 0 and group[k] >= 0:
            slope[k] += scale[k] * extra[1 + group[k]]
        low[k] = 0.0 if kink > 0.0 and value > 0.0 else part[k, LOWER]
        high[k] = 0.0 if kink > 0.0 and value < 0.0 else part[k, UPPER]


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def _imaged(ptr, ind, val, at, part, group, scale, d, image, sums):  # type: ignore[no-untyped-def]
    """``A'S d`` into `image`; the sums of signed and of scaled entries of d into `sums`."""
    image[:] = 0.0
    sums[:] = 0.0
    for k in range(at.size):
        if d[k] != 0.0:
            signed = part[k, SIGN] * d[k]
            add_row(ptr, ind, val, at[k], signed, image)
            sums[0] += signed
            if group.size > 0 and group[k] >= 0:
                sums[1 + group[k]] += scale[k] * d[k]


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def _product(ptr, ind, val, at, part, group, scale, constant, rho, d, image, sums, out):  # type: ignore[no-untyped-def]
    """``H d`` into `out`; returns ``d'H d``."""
    _imaged(ptr, ind, val, at, part, group, scale, d, image, sums)
    total = 0.0
    for k in range(at.size):
        value = part[k, SIGN] * (dot_row(ptr, ind, val, at[k], image) + constant * sums[0]) + part[k, RIDGE] * d[k]
        if group.size > 0 and group[k] >= 0:
            value += scale[k] * rho[group[k]] * sums[1 + group[k]]
        out[k] = value
        total += value * d[k]
    return total


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def conjugate_steps(  # type: ignore[no-untyped-def]
    ptr, ind, val, at, part, group, scale, constant, rho,
    move, residual, direction, bent, image, sums, state, steps, share,
):  # fmt: skip
    """So many steps of conjugate gradients, fewer where the residual has fallen to `share`; returns how many."""
    rr = state[_NOW]
    for step in range(steps):
        if not rr > share * share * state[_FIRST]:
            return step
        curved = _product(ptr, ind, val, at, part, group, scale, constant, rho, direction, image, sums, bent)
        if not curved > 0.0:
            return step
        length = rr / curved
        new = 0.0
        for k in range(at.size):
            move[k] += length * direction[k]
            residual[k] -= length * bent[k]
            new += residual[k] * residual[k]
        for k in range(at.size):
            direction[k] = residual[k] + new / rr * direction[k]
        rr = new
        state[_NOW] = rr
    return steps


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def bounded_step(  # type: ignore[no-untyped-def]
    ptr, ind, val, at, part, group, scale, constant, rho,
    slope, low, high, move, image, sums,
):  # fmt: skip
    """Go along `move` as the box allows; `image` and `sums` are then what it adds to w and `extra`."""
    before, d = part[:, VALUE].copy(), np.empty(at.size)
    reach = length = 1.0
    for half in range(_HALVES):
        for k in range(at.size):
            d[k] = min(max(before[k] + reach * move[k], low[k]), high[k]) - before[k]
        _imaged(ptr, ind, val, at, part, group, scale, d, image, sums)
        straight = curved = 0.0
        for k in range(at.size):
            straight += slope[k] * d[k]
            curved += part[k, RIDGE] * d[k] * d[k]
        for j in range(image.size):
            curved += image[j] * image[j]
        curved += constant * sums[0] * sums[0]
        for g in range(1, sums.size):
            curved += rho[g - 1] * sums[g] * sums[g]
        length = 1.0
        if straight + curved > 0.0:
            length = -straight / curved if straight < 0.0 else 0.0
        if length > 0.5 or half == _HALVES - 1:
            break
        reach *= 0.5
    for k in range(at.size):
        value = before[k] + length * d[k]
        if length == 1.0:
            # Exactly where it was cut, not a rounding beside it.
            value = min(max(before[k] + reach * move[k], low[k]), high[k])
        part[k, VALUE] = min(max(value, low[k]), high[k])
    for j in range(image.size):
        image[j] *= length
    sums[0] *= constant * length
    for g in range(1, sums.size):
        sums[g] *= rho[g - 1] * length

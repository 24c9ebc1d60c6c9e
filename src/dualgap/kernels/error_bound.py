"""How far a float32 entry of the RBF kernel can be from the true one: a proof, not an estimate.

Notation: ``u = 2^-24`` is the unit roundoff of float32, `p` and `q` are two points as the tiles see them, centred and
scaled such that ``K = 2^-(|p - q|^2 / 2)`` (see `kernels.fused`). A tile computes the exponent as ``t - (h_p + h_q)``
from ``t = p'q`` and ``h = |p|^2 / 2``, all in float32, from features that packing has rounded to float32.

1. What the norms are off, ``kappa = h~ - |p|^2 / 2`` with |p|^2 from float64, is known for every point, whatever it
   comes from. It is put right by factors ``2^kappa`` of the weights and of the sums, and needs no bound.
2. The products are off by two things. Rounded features move ``p'q`` by at most ``(2 u + u^2) |p| |q|``. The sum of d
   terms, one after another, rounds term j ``d - j + 1`` times, which makes ``u sum_j (d - j + 1) |p_j| |q_j|`` (times
   ``1 + 2 d u`` for products of roundings), and by Cauchy's inequality no more than ``u sqrt(N_p N_q)`` with
   ``N_p = sum_j (d - j + 1) p_j^2``. Again by Cauchy both together are at most ``s_p s_q`` where ``s_p^2`` is
   ``u (N_p + 2 |p|^2)`` times such a factor: the `spread` of a point. Sums made in another way have other spreads;
   where only ``|t~ - p'q| <= c |p| |q|`` is known, ``s_p^2 = (c + 2 u) |p|^2`` (`spread_of_sums`).
3. The two sums ``h_p + h_q`` and ``t - h`` round numbers of at most ``M = (|p| + |q|)^2 / 2`` each: ``2 u M``.
4. Exponents above 0 are set to 0. That brings them nearer to the truth but for kappa, so that an exponent is then off
   by at most ``|kappa_p| + |kappa_q|`` where that is more: it is added for all.

All of it is at most ``E = 1.01 (s_p s_q + 2 u M) + |kappa_p| + |kappa_q|``, where 1.01 is for products of errors (s_p^2
is at most 2^-9 |p|^2). The power of two has a relative error of at most `EXP2_ERROR`, so that the corrected entry k and
the true one K satisfy::

    |k - K| <= k (2^E / (1 - EXP2_ERROR) - 1)

and, because entries below 2^-100 are set to that, an absolute error of 2^-99 more. The contraction adds up six products
of weights (rounded to float32) and entries in float32, seven roundings, and then sums of six in float64. Taken over
weights of one sign nothing cancels, so that these are relative errors of the sum, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT = 2.0**-24
# The polynomial of `vectors.exp2` with its coefficients in float32 is 2.03e-7 off. Of its five multiply-adds the last
# is rounded in full and each of the others enters with |f| <= 1/2 of the next: 0.9e-7. Together that is less than 5 u;
# one more u, 6e-8, is far more than what features and products too small for float32 (below 2^-126) do to an exponent.
EXP2_ERROR = 6.0 * UNIT
_LOG_2 = float(np.log(2.0))
# For products of errors, where those of sums are at most this.
_SECOND_ORDER, _LARGEST = 1.01, 2.0**-9
# Roundings of a weight, its product with an entry and the sum of six: seven, and one for their products.
_SUM_UNITS = 8.0
# What entries too small for the exponential may be off, and what is lost of weights and products (at most 1, see
# `kernels.bounded_product`) that leave the range of normal numbers: each less than 2^-126, whatever the CPU does.
_FLOOR, _UNDERFLOW = 2.0**-99, 2.0**-124


@dataclass(frozen=True)
class EntryError:
    """The error of float32 entries of an RBF kernel.

    Attributes
    ----------
    spread : ndarray, shape (n,)
        A product of two points is off by at most the product of these.
    reach : ndarray, shape (n,)
        Upper bounds of ``|p|``.
    excess : ndarray, shape (n,)
        kappa, what the float32 norms have too much.
    rounding : float
        What the exponent is off beyond that, as a share of M.
    """

    spread: NDArray[np.float64]
    reach: NDArray[np.float64]
    excess: NDArray[np.float64]
    rounding: float = 2.0 * UNIT

    @classmethod
    def of(
        cls, spread: NDArray[np.float64], half: NDArray[np.float32], exact_half: NDArray[np.float64]
    ) -> EntryError | None:
        """From the spreads and ``|p|^2 / 2`` in both precisions; None where sums are too long to be bounded."""
        reach = np.sqrt(2.0 * exact_half) * (1.0 + 1e-10)  # float64 sums are off by less
        if not np.all(spread**2 <= _LARGEST * reach**2):
            return None
        return cls(spread, reach, half - exact_half)

    @classmethod
    def of_distances(cls, error: float, half: NDArray[np.float64]) -> EntryError | None:
        """Where squared distances are exact, of data of which each point is off by at most `error` of its norm.

        They move an exponent by at most ``2 error M`` (as in 1., with `error` for u); making it a float32 number, the
        factor it is multiplied by and the product round once each: ``3 u M``. Nothing is cut off.
        """
        if not error <= _LARGEST:
            return None
        none, reach = np.zeros(half.size), np.sqrt(2.0 * half) * (1.0 + 1e-10)
        return cls(none, reach, none, 2.0 * error * (1.0 + error) + 3.0 * UNIT)

    def corrections(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """Factors that entries of these points need."""
        return np.exp2(np.clip(self.excess[points], -1.0, 1.0))

    @cached_property
    def off(self) -> NDArray[np.float64]:
        """How much entries of each point can be off, to compare points by: E is about the product of two of these."""
        return np.asarray(np.sqrt(self.spread**2 + self.rounding * self.reach**2))

    def relative(
        self, points: NDArray[np.intp], others: NDArray[np.intp], *, terms: int | None = None
    ) -> NDArray[np.float64]:
        """Bound of ``|sum - true sum| / sum``, both over weights of one sign at `others`, for each of `points`.

        `terms` is their number where points may be among them more than once.
        """
        worst = (
            float(self.spread[others].max()),
            float(self.reach[others].max()),
            float(np.abs(self.excess[others]).max()),
        )
        rest = EXP2_ERROR + EXP2_ERROR**2 + _SUM_UNITS * UNIT + (others.size if terms is None else terms) * 2.0**-52
        found: NDArray[np.float64] = _relative(
            self.spread, self.reach, self.excess, points, *worst, self.rounding, rest
        )
        return found

    @staticmethod
    def absolute(total: float, largest: float, terms: int) -> float:
        """What underflow adds, for weights of this absolute sum and this largest one (before corrections)."""
        return 4.0 * (total * _FLOOR + largest * terms * _UNDERFLOW)


@nb.njit(cache=True, nogil=True)
def _relative(spread, reach, excess, points, spread_most, reach_most, excess_most, rounding, rest):  # type: ignore[no-untyped-def]
    """``2^E - 1`` with `rest` for all that is not in the exponent, for E at the worst of the other points.

    ``e^x - 1 <= x + x^2`` for x up to 1.79; beyond a factor of two nothing is left to bound (and corrections and the
    floor of entries end there).
    """
    found = np.empty(points.size)
    for k in range(points.size):
        i = points[k]
        both = reach[i] + reach_most
        exponent = _SECOND_ORDER * (spread[i] * spread_most + 0.5 * rounding * both * both)
        exponent += abs(excess[i]) + excess_most
        x = exponent * _LOG_2 + rest
        found[k] = x + x * x if exponent < 1.0 else np.inf
    return found


def spread_of_sums(product: float, exact_half: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spreads of points where a product has an error of at most ``product * |p| |q|``."""
    return np.sqrt((product + 2.0 * UNIT) * (1.0 + 2.0 * product) * 2.0 * exact_half)


def spread_in_order(X: NDArray[np.floating], centre: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Spreads of dense points whose products are added up feature by feature."""
    return _spread_of_dense(X, centre, scale, np.arange(X.shape[1], 0, -1))


def spread_of_dense_nonzeros(
    X: NDArray[np.floating], centre: NDArray[np.float64], scale: float, block: int
) -> NDArray[np.float64]:
    """Spreads of dense points of which only features that are not at the centre are added up: `most_roundings`."""
    most = np.zeros(X.shape[1], dtype=np.int64)
    _most_roundings_of_dense(X, centre, block, most)
    return _spread_of_dense(X, centre, scale, most)


def spread_of_nonzeros(
    values: NDArray[np.floating],
    which: NDArray[np.integer],
    starts: NDArray[np.integer],
    features: int,
    scale: float,
    block: int | None,
) -> NDArray[np.float64]:
    """Spreads of sparse points, whose terms are added up in the way of `most_roundings`.

    Parameters
    ----------
    values, which, starts : ndarray
        The nonzeros, their features, and where those of each point begin.
    features : int
        How many there are.
    scale : float
        What values are multiplied by.
    block : int or None
        Features of a block; None where all are added up in one chain.
    """
    most = np.zeros(features, dtype=np.int64)
    most_roundings(which, starts, 0 if block is None else block, most)
    found = np.empty(starts.size - 1)
    _weighted_nonzeros(values, which, starts, scale, most + 2.0, found)
    return _spread_from(found, most)


def _spread_of_dense(
    X: NDArray[np.floating], centre: NDArray[np.float64], scale: float, most: NDArray[np.int64]
) -> NDArray[np.float64]:
    found = np.empty(X.shape[0])
    _weighted_squares(X, centre, scale, most + 2.0, found)
    return _spread_from(found, most)


def _spread_from(squares: NDArray[np.float64], most: NDArray[np.int64]) -> NDArray[np.float64]:
    """From weighted squares of the features, with room for those of features that have been rounded themselves."""
    return np.asarray(np.sqrt(UNIT * (1.0 + 4.0 * (int(most.max(initial=0)) + 2) * UNIT) * squares))


@nb.njit(cache=True, nogil=True)
def _weighted_squares(X, centre, scale, weights, out):  # type: ignore[no-untyped-def]
    """``sum_j weights_j p_j^2`` for every row."""
    for i in range(X.shape[0]):
        total = 0.0
        for k in range(X.shape[1]):
            value = (X[i, k] - centre[k]) * scale
            total += weights[k] * value * value
        out[i] = total


@nb.njit(cache=True, nogil=True)
def _weighted_nonzeros(values, which, starts, scale, weights, out):  # type: ignore[no-untyped-def]
    """`_weighted_squares` of sparse rows."""
    for i in range(starts.size - 1):
        total = 0.0
        for p in range(starts[i], starts[i + 1]):
            value = np.float64(values[p]) * scale
            total += weights[which[p]] * value * value
        out[i] = total


@nb.njit(cache=True, nogil=True)
def most_roundings(which, starts, block, most):  # type: ignore[no-untyped-def]
    """How often a term of each feature is rounded in a sum over one of some sparse rows, at most.

    Within a block of features two chains take turns; after every block that has terms they are joined, and the next one
    goes on from there. Without blocks (0) there is one chain. A term of a feature is rounded once itself and once
    for every one that follows in its chain: the last features of a row hardly ever.
    """
    for r in range(starts.size - 1):
        _most_roundings_of_row(which, starts[r], starts[r + 1], block, most)


@nb.njit(cache=True, nogil=True)
def _most_roundings_of_dense(X, centre, block, most):  # type: ignore[no-untyped-def]
    """`most_roundings` of rows of a dense matrix, without what is at the centre."""
    which = np.empty(X.shape[1], dtype=np.int64)
    for r in range(X.shape[0]):
        count = 0
        for k in range(X.shape[1]):
            which[count] = k
            count += X[r, k] != centre[k]
        _most_roundings_of_row(which, 0, count, block, most)


@nb.njit(cache=True, nogil=True)
def _most_roundings_of_row(which, begin, end, block, most):  # type: ignore[no-untyped-def]
    later, here, current = 0, 0, -1
    for p in range(end - 1, begin - 1, -1):
        k = which[p]
        if block == 0:
            rounded = end - p
        else:
            if k // block != current:
                later += (here + 1) // 2 + 1 if here else 0
                here, current = 0, k // block
            here += 1
            rounded = later + (here + 1) // 2 + 1
        most[k] = max(most[k], rounded)

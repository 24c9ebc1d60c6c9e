"""Compiled steps of `finish`: the minimiser of a small problem with the variables at bounds kept there.

Systems have a hundred variables or so: what surrounds LAPACK in Python takes several times as long as they do.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# Added to the diagonal of a block that may be singular (repeated rows), relative to it; refinement takes it out again.
RIDGE, _REFINEMENTS = 1e-12, 4
# Bounds met on the way to the minimiser of a face, at most: more say that the face was not the right one.
_BOUNDS_MET = 24
# Sums may be taken in any order: that is what lets the compiler use vector instructions.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


@nb.njit(cache=True, nogil=True)
def signed_matrix(matrix, place, sign, ridge):  # type: ignore[no-untyped-def]
    """``H``, made symmetric, of the entries of a kernel matrix whose rows the variables are in `place`."""
    n = place.size
    H = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            one, other = np.float64(matrix[place[i], place[j]]), np.float64(matrix[place[j], place[i]])
            H[i, j] = H[j, i] = sign[i] * (0.5 * (one + other)) * sign[j]
        H[i, i] += ridge[i]
    return H


@nb.njit(cache=True, nogil=True)
def minimise_on_face(H, f0, F, e, lo, hi, a):  # type: ignore[no-untyped-def]
    """Move `a` to the minimiser with variables at bounds kept there; False where that has led nowhere.

    A step that would leave the box stops at the first bound, which is then one more that is kept.
    """
    free = np.empty(a.size, np.int64)
    count = 0
    for i in range(a.size):
        if lo[i] < a[i] < hi[i]:
            free[count] = i
            count += 1
    for _ in range(_BOUNDS_MET):
        if count == 0:
            return True
        J = free[:count]
        d = _newton(H, f0, F, e, a, J)
        if d.size == 0:
            return False
        length = 1.0
        for r in range(count):
            length = min(length, _room(a[J[r]], d[r], lo[J[r]], hi[J[r]]))
        left = 0
        for r in range(count):
            i = J[r]
            if _room(a[i], d[r], lo[i], hi[i]) <= length:
                a[i] = lo[i] if d[r] < 0.0 else hi[i]
            else:
                a[i] += length * d[r]
                free[left] = i
                left += 1
        if length == 1.0 and left == count:
            return True
        count = left
    return False


@nb.njit(cache=True, nogil=True, inline="always")
def _room(a, d, lo, hi):  # type: ignore[no-untyped-def]
    """How many steps `d` lead from `a` to a bound."""
    if d < 0.0:
        return (lo - a) / d
    return (hi - a) / d if d > 0.0 else np.inf


@nb.njit(cache=True, nogil=True)
def _newton(H, f0, F, e, a, J):  # type: ignore[no-untyped-def]
    """The step to the minimiser over the free variables; empty where their block is not positive semidefinite.

    With the block B of the free variables and their rows F_J: ``B d + F_J eta = -g_J`` and ``F_J'd = e - F'a``.
    """
    m, k = J.size, e.size
    block, factor, rows = np.empty((m, m)), np.empty((m, m)), np.empty((m, k))
    slope, missing = np.empty(m), e.copy()
    largest = 0.0
    for r in range(m):
        i = J[r]
        for c in range(m):
            block[r, c] = H[i, J[c]]
        largest = max(largest, block[r, r])
        slope[r] = f0[i] + _dot(H[i], a, a.size)
        rows[r] = F[i]
    for j in range(k):
        for i in range(a.size):
            missing[j] -= F[i, j] * a[i]
    factor[:] = block
    for r in range(m):
        factor[r, r] += RIDGE * max(largest, 2.2250738585072014e-308)
    if not _cholesky(factor):
        return np.empty(0)
    through = rows.copy()
    column = np.empty(m)
    for j in range(k):
        column[:] = through[:, j]
        _solve(factor, column)
        through[:, j] = column
    coupling = _inverse(rows, through)
    d, eta = np.zeros(m), np.zeros(k)
    off, short = np.empty(m), np.empty(k)
    for _ in range(_REFINEMENTS):
        for r in range(m):
            off[r] = -(slope[r] + _dot(block[r], d, m))
            for j in range(k):
                off[r] -= rows[r, j] * eta[j]
        _solve(factor, off)
        for j in range(k):
            short[j] = -missing[j]
            for r in range(m):
                short[j] += rows[r, j] * (off[r] + d[r])
        for j in range(k):
            shift = 0.0
            for c in range(k):
                shift += coupling[j, c] * short[c]
            eta[j] += shift
            for r in range(m):
                off[r] -= through[r, j] * shift
        for r in range(m):
            d[r] += off[r]
    for r in range(m):
        if not np.isfinite(d[r]):
            return np.empty(0)
    return d


@nb.njit(cache=True, nogil=True)
def _inverse(rows, through):  # type: ignore[no-untyped-def]
    """The inverse of ``rows' through``, a small semidefinite matrix, where it has one.

    Constraints may depend on each other over few free variables; the multipliers are then not unique, the step is.
    """
    m, k = rows.shape
    product = np.zeros((k, k))
    for j in range(k):
        for c in range(k):
            for r in range(m):
                product[j, c] += rows[r, j] * through[r, c]
    if k == 0:
        return product
    if k == 1:  # nearly always
        product[0, 0] = 1.0 / product[0, 0] if product[0, 0] > 0.0 else 0.0
        return product
    for j in range(k):
        for c in range(k):
            if not np.isfinite(product[j, c]):
                return product
    return np.linalg.pinv(product, RIDGE)


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _dot(x, y, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@nb.njit(cache=True, nogil=True)
def _cholesky(A):  # type: ignore[no-untyped-def]
    """The lower factor in place of A, row by row; False where A is not positive definite."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - _dot(A[i], A[j], j)) / A[j, j]
        pivot = A[i, i] - _dot(A[i], A[i], i)
        if not pivot > 0.0:
            return False
        A[i, i] = np.sqrt(pivot)
    return True


@nb.njit(cache=True, nogil=True)
def _solve(L, b):  # type: ignore[no-untyped-def]
    """``(L L')^-1 b`` in place of b."""
    n = b.size
    for i in range(n):
        b[i] = (b[i] - _dot(L[i], b, i)) / L[i, i]
    for i in range(n - 1, -1, -1):
        b[i] /= L[i, i]
        value = b[i]
        for j in range(i):
            b[j] -= L[i, j] * value


@nb.njit(cache=True, nogil=True)
def slopes(H, f0, ridge, a, out):  # type: ignore[no-untyped-def]
    """``(H - diag(ridge)) a + f0``."""
    for i in range(a.size):
        out[i] = f0[i] + _dot(H[i], a, a.size) - ridge[i] * a[i]


@nb.njit(cache=True, nogil=True)
def miss(H, f0, F, e, lo, hi, ridge, a, slope, eta):  # type: ignore[no-untyped-def]
    """How far the optimality conditions are from holding, and the sums they are made of; the same for ``F'a = e``."""
    violation = scale = sums = size = 0.0
    for i in range(a.size):
        s, terms = slope[i] + ridge[i] * a[i], abs(f0[i])
        for j in range(e.size):
            s += F[i, j] * eta[j]
        for t in range(a.size):
            terms += abs(H[i, t] * a[t])
        scale = max(scale, terms)
        if a[i] > lo[i]:
            violation = max(violation, s)
        if a[i] < hi[i]:
            violation = max(violation, -s)
    for j in range(e.size):
        total, terms = -e[j], abs(e[j])
        for i in range(a.size):
            total += F[i, j] * a[i]
            terms += abs(F[i, j] * a[i])
        sums, size = max(sums, abs(total)), max(size, terms)
    return violation, scale, sums, size

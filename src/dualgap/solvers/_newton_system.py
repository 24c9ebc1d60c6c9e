"""Newton's system of `newton` over the free variables J, solved over features, over J, or by conjugate gradients::

    [ I + B'DB    B'DF      ] [ p   ]     [ g     ]
    [ F'DB        F'DF + dI ] [ eta ] = - [ g_eta ],      B = S_J A_J (signed rows), D diagonal, d a tiny damping

With ``q = D (B p + F eta)`` the same is a system over J: ``(BB' + 1/D) q - F eta = -B g,  F'q + d eta = -g_eta`` and
``p = -g - B'q``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.factor import Factor

# Nanoseconds a multiplication takes in a sparse product, in one of BLAS, and in a factorisation.
_SPARSE, _DENSE, _FACTORISE = 1.2, 0.1, 0.07
# Conjugate gradients are expected to take about this many steps; above this size of a square nothing else fits.
_CG_STEPS, _SQUARE_MOST = 300, 6000
# Damping of the multipliers' block, relative to what one free variable would give: it decides only where none is free.
_DAMPING = 1e-4


def direction(
    factor: Factor,
    points: NDArray[np.intp],
    sign: NDArray[np.float64],
    F: NDArray[np.float64],
    D: NDArray[np.float64],
    scale: float,
    g: NDArray[np.float64],
    g_eta: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The step ``(p, eta)``; `scale` is the mean of D over all variables."""
    k, j, d = F.shape[1], points.size, factor.d
    damping = _DAMPING * scale
    if j == 0:
        return -g, -g_eta / damping if k else np.zeros(0)
    length = factor.row_length
    each = _SPARSE if factor.sparse else _DENSE
    by_features = 0.5 * length * length * j * each + _FACTORISE * d**3 / 3
    by_rows = 0.5 * length * j * j * each + _FACTORISE * j**3 / 3
    by_steps = 2.0 * _CG_STEPS * length * j * (_SPARSE if factor.sparse else 3 * _DENSE)
    if d > _SQUARE_MOST:
        by_features = np.inf
    if j > _SQUARE_MOST:
        by_rows = np.inf
    least = min(by_features, by_rows, by_steps)
    if least == by_features:
        return _by_features(factor, points, sign, F, D, damping, g, g_eta)
    if least == by_rows:
        return _by_rows(factor, points, sign, F, D, damping, g, g_eta)
    return _by_steps(factor, points, sign, F, D, damping, g, g_eta)


def _by_features(factor, points, sign, F, D, damping, g, g_eta):  # type: ignore[no-untyped-def]
    d, k = factor.d, F.shape[1]
    M = np.empty((d + k, d + k))
    M[:d, :d] = factor.cross(points, D)
    M[np.arange(d), np.arange(d)] += 1.0
    for c in range(k):
        M[:d, d + c] = M[d + c, :d] = factor.transposed(sign * D * F[:, c], points)
    if k:
        M[d:, d:] = F.T @ (D[:, None] * F) + damping * np.eye(k)
    solved = sla.cho_solve(sla.cho_factor(M, lower=True, overwrite_a=True, check_finite=False), np.concatenate([g, g_eta]))
    return -solved[:d], -solved[d:]


def _by_rows(factor, points, sign, F, D, damping, g, g_eta):  # type: ignore[no-untyped-def]
    k = F.shape[1]
    M = factor.inner(points)
    M *= sign[:, None] * sign[None, :]
    M[np.diag_indices_from(M)] += 1.0 / D
    cholesky = sla.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
    right = -sign * factor.products(g, points)
    q = sla.cho_solve(cholesky, right)
    eta = np.zeros(k)
    if k:
        solved = sla.cho_solve(cholesky, F)
        eta = np.linalg.solve(F.T @ solved + damping * np.eye(k), -g_eta - F.T @ q)
        q = q + solved @ eta
    return -g - factor.transposed(sign * q, points), eta


def _by_steps(factor, points, sign, F, D, damping, g, g_eta):  # type: ignore[no-untyped-def]
    """Conjugate gradients on the system itself, to a residual that Newton's method can use."""
    d = factor.d
    size = float(np.sqrt(g @ g + g_eta @ g_eta))
    x = np.zeros(d + F.shape[1])
    r = -np.concatenate([g, g_eta])
    p, rr = r.copy(), float(r @ r)
    goal = (min(0.01, size) * size) ** 2
    for _ in range(4 * _CG_STEPS):
        if rr <= goal:
            break
        inner = D * (sign * factor.products(p[:d], points) + F @ p[d:])
        Hp = np.concatenate([p[:d] + factor.transposed(sign * inner, points), F.T @ inner + damping * p[d:]])
        step = rr / float(p @ Hp)
        x += step * p
        r -= step * Hp
        new = float(r @ r)
        p = r + (new / rr) * p
        rr = new
    return x[:d], x[d:]

"""The free variables of the block solver, moved together: Newton's method with bounds that are met on the way.

Near the solution the variables that are free stay free, and what is left is linear. With H over them (float32, as all
entries are), constraints C (the sums of groups, and variables that are to stop at a bound) and slopes g::

    min_d  1/2 d'Hd + g'd    subject to    C'd = c

is solved by conjugate gradients, preconditioned by the Cholesky factor P of H with its diagonal raised a little, each
direction taken into the null space of C' by ``z - W (C'W)^-1 C'z, W = P^-1 C``. Two or three iterations remove what
rounding and the raised diagonal leave. Where d leaves the box, the variables that do are to stop at their bounds and it
is solved again: the factor stays the same, C grows by a column each.

Cost: ``f^3 / 3`` multiplications in float32 for f free variables, some 20 milliseconds for 1800, where pair steps take
tens of thousands of steps for each digit; a factor is used for as long as no other variable becomes free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import blas, lapack

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Added to the diagonal, relative to its largest entry, before a factorisation and after one that failed: entries
# leave eigenvalues wrong by their rounding (of 4 or 8 bytes) times the square root of some thousand variables.
_SHIFT, _SHIFT_MORE, _SHIFTS = {4: 3e-6, 8: 1e-12}, 10.0, 3
# Rounds in which variables stop at bounds, and how many may: more say that the face is not the right one.
_ROUNDS, _STOPPED_LEAST, _STOPPED_SHARE = 8, 128, 0.08
# Conjugate gradients: iterations, and the share of the tolerance that may be left.
_ITERATIONS, _LEFT = 12, 0.03
# A step of a pair passes by a variable in 0.6 nanoseconds, a factorisation makes 80 multiplications in one, and a
# kernel entry takes 0.014 for each multiplication it is made of.
_FACTOR_COST, _ENTRY_COST = 1 / (3 * 0.6 * 80), 0.014 / 0.6
# Solutions and products, some ten, and as many at once for variables that stop: measured.
_SOLUTIONS_COST = 10.0
# Variables that became free after the factorisation, at most.
_LATER = 64
# Sums of groups are restored this often: each time leaves the rounding of float32 of what there was.
_RESTORED = 4
# Constraints whose (scaled) matrix has smaller eigenvalues depend on each other.
_DEPENDENT = 1e-10
# What rounding may leave of a group's sum, relative to what it is made of.
_KEPT = 1e-13


@dataclass(frozen=True, eq=False)
class Face:
    """H over some variables and its Cholesky factor, and over a few that became free later.

    Attributes
    ----------
    variables : ndarray of int
        Which: those of the factor, then the later ones.
    both : ndarray, shape (f, f), in Fortran's order
        Below and on the diagonal the factor of H with its diagonal raised by `shift`, above it H.
    diagonal : ndarray, shape (f,)
        Of H, less that of the factor.
    shift : float
        See `both`.
    border, corner : ndarray, shape (f, k) and (k, k)
        H between the two kinds, and over the later ones.
    through, schur : ndarray, shape (f, k) and (k, k)
        ``P^-1 border`` and the inverse of what is left of the corner.
    """

    variables: NDArray[np.intp]
    both: NDArray[Any]
    diagonal: NDArray[Any]
    shift: float
    border: NDArray[Any]
    corner: NDArray[Any]
    through: NDArray[np.float64]
    schur: NDArray[np.float64]

    def missing(self, free: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """Those of the free variables that it does not hold; None where a new face is better."""
        new = free[~np.isin(free, self.variables)]
        later = self.variables.size - self.both.shape[0] + new.size
        stopped = self.variables.size + new.size - free.size
        return new if later <= _LATER and stopped <= _STOPPED_LEAST // 2 else None

    def solve(self, right: NDArray[Any]) -> NDArray[np.float64]:
        """``P^-1 right``, P with the later variables."""
        f = self.both.shape[0]
        first = self._solve(right[:f])
        if right.shape[0] == f:
            return first
        later = self.schur @ (right[f:] - self.through.T @ right[:f])
        return np.concatenate([first - self.through @ later, later])

    def _solve(self, right: NDArray[Any]) -> NDArray[np.float64]:
        potrs = lapack.spotrs if self.both.dtype == np.float32 else lapack.dpotrs
        # Scaled: slopes near the solution may be below what float32 holds.
        scale = max(float(np.abs(right).max(initial=0.0)), 1e-300)
        solution, _ = potrs(self.both, (right / scale).astype(self.both.dtype), lower=1)
        return scale * np.asarray(solution, dtype=np.float64)

    def product(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """``H d``, up to the rounding of the entries' precision."""
        scale = max(float(np.abs(d).max(initial=0.0)), 1e-300)
        f = self.both.shape[0]
        scaled = (d / scale).astype(self.both.dtype)
        symv = blas.ssymv if self.both.dtype == np.float32 else blas.dsymv
        image = symv(1.0, self.both, scaled[:f], lower=0) + self.diagonal * scaled[:f]
        if d.size > f:
            later = scaled[f:]
            image = np.concatenate([image + self.border @ later, self.border.T @ scaled[:f] + self.corner @ later])
        return scale * image.astype(np.float64)

    def grown(self, new: NDArray[np.intp], border: NDArray[Any], corner: NDArray[Any]) -> Face:
        """With more variables; `border` and `corner` are H between all before and them, and over them."""
        f = self.both.shape[0]
        corner = np.block([[self.corner, border[f:]], [border[f:].T, corner]])
        border = np.column_stack([self.border, border[:f]])
        through = np.column_stack([self.through, self._solve(border[:, self.border.shape[1] :])])
        left = corner + self.shift * np.eye(len(corner)) - border.T.astype(np.float64) @ through
        schur = np.asarray(
            np.linalg.pinv(0.5 * (left + left.T), rcond=_SHIFT[corner.dtype.itemsize], hermitian=True), np.float64
        )
        return replace(
            self,
            variables=np.concatenate([self.variables, new]),
            border=border,
            corner=corner,
            through=through,
            schur=schur,
        )


def make_face(variables: NDArray[np.intp], matrix: NDArray[Any]) -> Face | None:
    """Factor H over the variables, in its own memory; None where it is indefinite by more than rounding."""
    potrf = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
    f, kind = variables.size, matrix.dtype
    diagonal = matrix.diagonal().copy()
    shift = _SHIFT[kind.itemsize] * max(float(diagonal.max(initial=0.0)), 1e-300)
    both = matrix.T  # symmetric, and in the order that LAPACK writes to
    for attempt in range(_SHIFTS):
        if attempt:  # what is above the diagonal is as it was
            shift *= _SHIFT_MORE
            for j in range(f):  # column by column: the places of all of them are twice as large as the matrix
                both[j + 1 :, j] = both[j, j + 1 :]
        both[np.diag_indices(f)] = diagonal + shift
        both, failed = potrf(both, lower=1, overwrite_a=1, clean=0)
        if not failed:
            none, few = np.empty((f, 0)), np.empty((0, 0))
            apart = diagonal - both.diagonal()
            return Face(variables, both, apart, shift, none.astype(kind), few.astype(kind), none, few)
    return None


def face_cost(free: int, active: int, entry_cost: float, *, factored: bool) -> float:
    """What it costs, in variables that pair steps pass by: solutions, the gradient of the active set, the factor."""
    cost = _SOLUTIONS_COST * float(free) ** 2 + _ENTRY_COST * entry_cost * free * active
    if not factored:
        cost += _FACTOR_COST * float(free) ** 3 + _ENTRY_COST * entry_cost * free * free
    return cost


def face_end(
    face: Face,
    slope: NDArray[np.float64],
    u: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    group: NDArray[np.int64],
    tol: float,
) -> NDArray[np.float64] | None:
    """Where the variables of a face go: to the least point of the face within the box, nearly.

    Parameters
    ----------
    face : Face
        The variables and H; those that are at a bound stay there.
    slope, u, lo, hi, group : ndarray, shape (f,)
        Their slopes, measured from about their groups' thresholds, values, bounds and groups (-1: none).
    tol : float
        The violation that is wanted.

    Returns
    -------
    ndarray or None
        Their new values; None where there are too many bounds in the way, or nothing descends.
    """
    stopped = (u <= lo) | (u >= hi)
    most = min(max(_STOPPED_LEAST, int(_STOPPED_SHARE * u.size)), u.size // 2)
    sums = (group[:, None] == np.unique(group[group >= 0])).astype(np.float64)
    columns = face.solve(sums) if sums.size else sums
    known, inverse = np.zeros(u.size, dtype=bool), np.zeros((u.size, 0))
    order, end = np.empty(0, dtype=np.intp), u.copy()
    precise = False
    for _ in range(_ROUNDS):
        fresh = np.flatnonzero(stopped & ~known)
        if order.size + fresh.size > most:
            return None
        if fresh.size:
            units = np.zeros((u.size, fresh.size))
            units[fresh, np.arange(fresh.size)] = 1.0
            inverse = np.column_stack([inverse, face.solve(units)])
            order, known = np.concatenate([order, fresh]), stopped.copy()
        # One iteration is enough to see which bounds are in the way.
        iterations = _ITERATIONS if precise else 1
        d = _constrained(face, slope, sums, columns, order, inverse, (end - u)[order], tol, iterations)
        if d is None:
            return None
        beyond = ~stopped & ((u + d < lo) | (u + d > hi))
        if precise and not beyond.any():
            falls = float(d @ (slope + 0.5 * face.product(d))) < 0.0
            return _balanced(np.where(stopped, end, u + d), u, lo, hi, sums, ~stopped) if falls else None
        precise = not beyond.any()
        end[beyond] = np.where(d[beyond] < 0.0, lo[beyond], hi[beyond])
        stopped |= beyond
    return None


def _balanced(
    end: NDArray[np.float64],
    u: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    sums: NDArray[np.float64],
    moving: NDArray[np.bool_],
) -> NDArray[np.float64] | None:
    """The end with what rounding has left of each group's sum taken from the variable that has most room.

    Thousands of steps would add it up to a violated constraint.
    """
    for column in sums.T:
        members = np.flatnonzero((column > 0.0) & moving)
        off = fsum((end - u)[column > 0.0])
        if off == 0.0:
            continue
        room = np.minimum(end[members] - lo[members], hi[members] - end[members])
        if not members.size or not room.max() > abs(off):
            return None
        end[members[room.argmax()]] -= off
    return end


def _constrained(
    face: Face,
    slope: NDArray[np.float64],
    sums: NDArray[np.float64],
    columns: NDArray[np.float64],
    stopped: NDArray[np.intp],
    inverse: NDArray[np.float64],
    ends: NDArray[np.float64],
    tol: float,
    iterations: int,
) -> NDArray[np.float64] | None:
    """The minimiser with sums kept and `stopped` variables moved to `ends`; `columns` and `inverse` are ``P^-1 C``."""
    W = np.column_stack([columns, inverse])
    k = columns.shape[1]

    def against(z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``C'z``."""
        return np.concatenate([sums.T @ z, z[stopped]])

    coupling = _inverse(np.column_stack([against(w) for w in W.T])) if W.shape[1] else np.empty((0, 0))

    wanted = np.concatenate([np.zeros(k), ends])
    d = W @ (coupling @ wanted) if W.shape[1] else np.zeros(slope.size)
    residual = -(slope + face.product(d)) if ends.any() else -slope
    moving = np.ones(slope.size, dtype=bool)
    moving[stopped] = False
    direction, before = np.zeros(slope.size), 0.0
    for _ in range(iterations):
        z = face.solve(residual)
        if W.shape[1]:
            # The multipliers' part leaves the residual, too: it does not fall, and would drown what does.
            multipliers = coupling @ against(z)
            residual -= sums @ multipliers[:k]
            residual[stopped] -= multipliers[k:]
            z -= W @ multipliers
        now = float(residual @ z)
        if not now > 0.0:
            break
        direction = z + (now / before) * direction if before > 0.0 else z
        before = now
        image = face.product(direction)
        curvature = float(direction @ image)
        if not curvature > 0.0:
            return None if not d.any() else d
        d += (now / curvature) * direction
        residual -= (now / curvature) * image
        if _spread(residual, sums, moving) <= _LEFT * tol:
            break
    for _ in range(_RESTORED):
        d[stopped] = ends
        off = np.concatenate([sums.T @ d, np.zeros(ends.size)])
        if k == 0 or not off.any():
            break
        d -= W @ (coupling @ off)
    d[stopped] = ends
    # Where all variables of a group are to stop at bounds, its sum cannot be kept.
    off, size = np.abs(sums.T @ d), sums.T @ np.abs(d)
    return d if np.all(np.isfinite(d)) and np.all(off <= _KEPT * size) else None


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of ``C'P^-1 C``, scaled to a diagonal of ones first: columns of C differ by the number of ones."""
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    scaled = 0.5 * (matrix + matrix.T) * scale[:, None] * scale
    inverse = np.linalg.pinv(scaled, rcond=_DEPENDENT, hermitian=True)
    return np.asarray(inverse * scale[:, None] * scale, dtype=np.float64)


def _spread(residual: NDArray[np.float64], sums: NDArray[np.float64], moving: NDArray[np.bool_]) -> float:
    """The violation among variables that move: how far slopes of one group are apart, or from 0 without one."""
    worst = 0.0
    for column in sums.T:
        members = residual[moving & (column > 0.0)]
        worst = max(worst, float(np.ptp(members)) if members.size else 0.0)
    alone = residual[moving & ~sums.any(axis=1)] if sums.shape[1] else residual[moving]
    return max(worst, float(np.abs(alone).max(initial=0.0)))

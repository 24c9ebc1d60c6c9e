"""Low-rank kernel matrices: SGMA and randomly pivoted Cholesky.

Both choose r of the n points as a basis and project every ``k(x_i, .)`` onto the span of the basis functions
``k(x_j, .)``, j in the basis::

    K~ = K[:, basis] K[basis, basis]^-1 K[basis, :] = G G',      G = K[:, basis] L^-T,  L L' = K[basis, basis]

``K - K~`` is positive semidefinite and its trace is the error, ``Err = tr(K) - tr(K~)`` (lecture, T10.2; the
approximation is positive semidefinite, not definite). A machine trained on K~ is the machine itself with its function
kept within the span: ``f = G w`` at the training points, ``sum_j c_j k(x_j, .)`` over the basis everywhere, with
``c = L^-T w`` and the same norm.

The lecture keeps ``alpha = K[:, basis] K[basis, basis]^-1`` and updates it by ``alpha += r v'/eta`` and a new column
``-r/eta``. With a basis of similar points alpha's entries are large and cancel. The columns of G do not: a step adds
``-r/sqrt(eta)`` and leaves the others as they are, and ``alpha = G L^-1`` where it is wanted.

======================  =============================================  =========================================
method                  a step chooses                                 cost for rank r
======================  =============================================  =========================================
sgma, "best of 59"      the largest gain of 59 random candidates       59 m r kernel values, 59 m r^2 / 2
sgma, "greedy"          the largest gain of m candidates               m^2 kernel values (they are kept), m^2 r
sgma, "random"          any                                            m r kernel values, m r^2 / 2
rpcholesky              with probability proportional to K_ii - K~_ii  n r kernel values, n r^2
======================  =============================================  =========================================

m is the number of points that gains are measured on: all up to 10 000, else a random 10 000 of them. SGMA needs another
n r kernel values and n r^2 for the factor over all points where these are more. Memory is that of G, n r numbers.
Use `sgma` for the smallest error at a rank, which every later step and every prediction pays for; `rpcholesky` where
the choice itself must be cheap (up to some 100 000 points, or at high ranks), or for its guarantees.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.linalg as sla

from dualgap.kernels._lowrank_factor import Factor
from dualgap.kernels._lowrank_pivots import grow_by_random_pivots
from dualgap.kernels._lowrank_selection import SELECTIONS, Selection
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import FOREIGN_BUDGET, KernelGram
from dualgap.kernels.points import prepare
from dualgap.kernels.threads import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# Basis functions where not said: 1 000 000 points are then 1.6 GB of float64.
RANK = 200
# Where a sample promised an error that all points do not keep, the sample's goal is lowered by a tenth more than by
# what was missed.
_LOWER = 0.9


class LowRankGram(KernelGram):
    """The matrix ``K~ = G G'`` as a Gram matrix: a linear kernel over the rows of G.

    Attributes
    ----------
    factor : ndarray, shape (n, rank)
        G.
    basis : ndarray of intp, shape (rank,)
        The basis points in the order in which they were chosen.
    triangle : ndarray, shape (rank, rank)
        The Cholesky factor L of K[basis, basis].
    residual : ndarray, shape (n,)
        ``K_ii - K~_ii``, the squared distance of ``k(x_i, .)`` from the span.
    errors : ndarray, shape (rank + 1,)
        ``tr(K - K~)`` with 0, 1, ..., rank basis functions.
    kernel_gram : Gram
        The matrix K that this approximates.
    method : {"sgma", "rpcholesky"}
        How the basis was chosen.
    kernel_values : int
        Entries of K that were computed for it (`evaluations` counts those of K~).
    """

    def __init__(self, factor: Factor, gram: Gram, method: str, kernel_values: int) -> None:
        rank = factor.rank
        G = factor.G if rank == factor.G.shape[1] else np.ascontiguousarray(factor.G[:, :rank])
        linear = Kernel("linear")
        budget = getattr(gram, "budget", FOREIGN_BUDGET)
        super().__init__(prepare(G, linear), linear, budget, n_jobs=getattr(gram, "n_jobs", None))
        self.basis, self.residual, self.errors = factor.basis, factor.residual, factor.errors()
        self.triangle = np.ascontiguousarray(factor.triangle[:rank, :rank])
        self.kernel_gram, self.method, self.kernel_values = gram, method, kernel_values

    @property
    def rank(self) -> int:
        """Number of basis functions."""
        return len(self.basis)

    @property
    def trace_error(self) -> float:
        """``tr(K - K~) / tr(K)``."""
        return float(self.errors[-1] / self.errors[0])

    def separate(self) -> LowRankGram:
        """The same matrix for one thread beside others: the data are shared, caches and counts are its own."""
        other = cast("LowRankGram", super().separate())
        if hasattr(self.kernel_gram, "separate"):
            other.kernel_gram = self.kernel_gram.separate()
        return other

    def expand(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients over the basis of the function with these weights over all points.

        ``sum_i weights_i k~(x_i, .) = sum_j c_j k(basis_j, .)`` with ``c = L^-T G' weights``.
        """
        w = np.zeros(self.rank)
        for start in range(0, self.n, 4096):  # float64 a bounded number of rows at a time
            w += self.factor[start : start + 4096].astype(np.float64).T @ weights[start : start + 4096]
        return np.asarray(sla.solve_triangular(self.triangle, w, lower=True, trans="T"))

    def alpha(self) -> NDArray[np.float64]:
        """The lecture's alpha: ``k~_i = sum_j alpha_ij k(basis_j, .)``, an n x rank matrix in float64."""
        transposed = self.factor.T.astype(np.float64)
        return np.asarray(sla.solve_triangular(self.triangle, transposed, lower=True, trans="T")).T


def sgma(
    gram: Gram,
    rank: int = RANK,
    *,
    trace_tol: float = 0.0,
    selection: str = "best of 59",
    dtype: Any = None,
    seed: int = 0,
) -> LowRankGram:
    """Sparse greedy matrix approximation.

    Parameters
    ----------
    gram : Gram
        The kernel matrix; positive semidefinite.
    rank : int
        Basis functions at most; as many as there are points where it is more. Fewer are taken where what is left is
        rounding.
    trace_tol : float
        Relative error ``tr(K - K~) / tr(K)`` at which to stop.
    selection : {"best of 59", "greedy", "random"}
        Of how many candidates the best is taken: 59 random ones (one is among the best 5 % with probability 0.95), all,
        or one. Beyond 10 000 points gains are measured on a random 10 000 of them, and these are all candidates of
        "greedy".
    dtype : {float64, float32} or None
        Of the factor; None for that of the kernel matrix.
    seed : int
        Of the random candidates.

    Returns
    -------
    LowRankGram

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> from dualgap.kernels.lowrank import sgma
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> approximate = sgma(dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.1)), rank=30)
    >>> approximate.rank, bool(approximate.trace_error < 1e-3)
    (30, True)
    """
    rank, dtype = _checked(gram, rank, trace_tol, dtype)
    if selection not in SELECTIONS:
        raise ValueError(f"selection must be one of {', '.join(map(repr, SELECTIONS))}; got {selection!r}.")
    with one_blas_thread():
        return _sgma(gram, rank, trace_tol, selection, dtype, seed)


def _sgma(gram: Gram, rank: int, trace_tol: float, selection: str, dtype: np.dtype[Any], seed: int) -> LowRankGram:
    chosen = Selection(gram, rank, selection, np.random.default_rng(seed))
    factor = Factor(gram, rank, dtype)
    goal, total = trace_tol, float(factor.diagonal.sum())
    while True:
        more = chosen.grow(rank, goal)
        basis = np.array(chosen.basis, dtype=np.intp)
        new = slice(factor.rank, basis.size)
        if chosen.whole:
            factor.take(basis, chosen.G[:, : basis.size], chosen.residual)
        elif basis.size > factor.rank:
            factor.extend(basis[new], chosen.triangle[new, : basis.size])
        if not more or factor.rank == rank or factor.error <= trace_tol * total:
            break
        goal = _LOWER * trace_tol / (factor.error / total) * chosen.relative_error
    values = chosen.entries.evaluations + factor.kernel_values
    return _finished(factor, gram, "sgma", trace_tol, values)


def rpcholesky(
    gram: Gram,
    rank: int = RANK,
    *,
    trace_tol: float = 0.0,
    block: int | None = None,
    dtype: Any = None,
    seed: int = 0,
) -> LowRankGram:
    """Randomly pivoted Cholesky, a block of proposals at a time.

    Parameters
    ----------
    gram : Gram
        The kernel matrix; positive semidefinite.
    rank : int
        Basis functions at most; as many as there are points where it is more. Fewer are taken where what is left is
        rounding.
    trace_tol : float
        Relative error ``tr(K - K~) / tr(K)`` at which to stop.
    block : int or None
        Proposals a block; 1 is the sequential method. The distribution of the basis does not depend on it.
    dtype : {float64, float32} or None
        Of the factor; None for that of the kernel matrix.
    seed : int
        Of the random pivots.

    Returns
    -------
    LowRankGram

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> from dualgap.kernels.lowrank import rpcholesky
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.1))
    >>> bool(rpcholesky(gram, trace_tol=1e-3).rank < 40)
    True
    """
    rank, dtype = _checked(gram, rank, trace_tol, dtype)
    if block is not None and (not isinstance(block, Integral) or block < 1):
        raise ValueError(f"block must be a positive number of proposals or None; got {block!r}.")
    factor = Factor(gram, rank, dtype)
    with one_blas_thread():
        grow_by_random_pivots(factor, rank, trace_tol, block, np.random.default_rng(seed))
        if dtype == np.float32 and factor.rank:
            factor.renew()
    return _finished(factor, gram, "rpcholesky", trace_tol, factor.kernel_values)


APPROXIMATIONS: dict[str, Callable[..., LowRankGram]] = {"sgma": sgma, "rpcholesky": rpcholesky}


def _checked(gram: Gram, rank: int, trace_tol: float, dtype: Any) -> tuple[int, np.dtype[Any]]:
    """The rank that is possible and the factor's dtype."""
    if not isinstance(rank, Integral) or isinstance(rank, bool) or rank < 1:
        raise ValueError(f"rank must be a positive whole number of basis functions; got {rank!r}.")
    if not isinstance(trace_tol, Real) or not 0.0 <= trace_tol < 1.0:
        raise ValueError(
            f"trace_tol must lie in [0, 1): it is a relative error of the trace, 0 to stop at the rank only; "
            f"got {trace_tol!r}."
        )
    if not float(gram.diag().sum()) > 0.0:
        raise ValueError("The kernel matrix has no positive trace: there is nothing to approximate.")
    wanted = np.dtype(gram.dtype if dtype is None else dtype)
    if wanted not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {dtype!r}.")
    return min(int(rank), gram.n), wanted


def _finished(factor: Factor, gram: Gram, method: str, trace_tol: float, values: int) -> LowRankGram:
    """Without the columns beyond the first that has reached the tolerance."""
    enough = np.flatnonzero(factor.errors() <= trace_tol * float(factor.diagonal.sum()))
    if enough.size and 0 < enough[0] < factor.rank:
        factor.cut(int(enough[0]))
    return LowRankGram(factor, gram, method, values)

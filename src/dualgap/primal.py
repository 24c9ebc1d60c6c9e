"""Support vector machines as composite problems: p and q each 1 or 2, linear or with a kernel.

::

    min over w, b of  |w|_p^p + C sum_i max(0, 1 - y_i (w'x_i + b))^q                    (SESOP paper, eqs. 6, 18, 20)

with b free of penalty. What is not smooth (``p = 1``, ``q = 1``) is smoothed by eps (22, 23); nothing else is. There is
no 1/2 before ``|w|^2``: for p = 2 the usual C is half of this one.

With a Gram matrix in place of X the decision function is ``sum_j a_j k(x_j, x) + b``. For p = 2 the norm is that of w
in feature space, ``a'Ka`` (eq. 21, whose alpha_j is ``y_j a_j`` here); for p = 1 it is ``|a|_1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.composite import Composite
from dualgap.losses import Hinge, SquaredHinge
from dualgap.operators import KernelMap, as_operator
from dualgap.regularisers import Penalty

if TYPE_CHECKING:
    from numpy.typing import NDArray


def primal_svm(
    X: Any,
    y: NDArray[np.float64],
    C: float = 1.0,
    *,
    p: int = 1,
    q: int = 1,
    eps: float = 1e-2,
    bias: bool = True,
    sample_weight: NDArray[np.float64] | None = None,
) -> Composite:
    """The composite problem of a support vector machine.

    Parameters
    ----------
    X : array, sparse matrix, LinearOperator or Gram
        Samples, one a row (not copied); or the kernel matrix over them.
    y : ndarray
        Labels, +1 and -1.
    C : float
        Weight of the losses.
    p, q : {1, 2}
        Norm of the weights and power of the slacks.
    eps : float
        Smoothing of what is not smooth.
    bias : bool
        Whether there is a bias, the last variable.
    sample_weight : ndarray or None
        Multiplies C, sample by sample.

    Returns
    -------
    Composite
        Variables are w (or the kernel coefficients a), then b.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap import primal_svm, minimize_smoothed
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [4.0, 0.0]]); y = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> result = minimize_smoothed(primal_svm(X, y, C=10.0), gap_tol=1e-6)
    >>> result.x.round(4).tolist(), bool(result.certificate.relative_gap <= 1e-6)
    ([1.0, 0.0, -2.0], True)
    """
    if p not in (1, 2) or q not in (1, 2):
        raise ValueError(f"p and q must be 1 or 2; got p={p!r}, q={q!r}.")
    if not (np.isfinite(C) and C > 0.0):
        raise ValueError(f"C must be a positive number; got {C!r}.")
    operator = as_operator(X)
    weights = np.full(operator.shape[0], float(C))
    if sample_weight is not None:
        given = np.asarray(sample_weight, dtype=np.float64)
        if given.shape != weights.shape:
            raise ValueError(f"sample_weight must hold {weights.size} numbers; its shape is {given.shape}.")
        weights *= given
    loss = Hinge(y, weights, eps=eps) if q == 1 else SquaredHinge(y, weights)
    in_feature_space = p == 2 and isinstance(operator, KernelMap)
    if p == 1:
        regulariser = Penalty(l1=1.0, eps=eps)
    else:
        regulariser = Penalty() if in_feature_space else Penalty(l2=1.0)
    return Composite(
        as_operator(operator, bias=bias),
        loss,
        regulariser,
        free=(-1,) if bias else (),
        energy=1.0 if in_feature_space else 0.0,
    )

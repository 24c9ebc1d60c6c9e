"""A smooth absolute value, the one the SESOP paper is built on, and its two derivatives.

::

    psi(s)   = eps (|s/eps| + 1/(|s/eps| + 1) - 1) = s^2 / (|s| + eps)        (SESOP paper, eq. 22)
    psi'(s)  = s (|s| + 2 eps) / (|s| + eps)^2                                 odd, between -1 and 1
    psi''(s) = 2 eps^2 / (|s| + eps)^3

It lies below ``|s|`` by at most eps. Moved along its argument, ``psi(s + shift) - psi(shift)``, it has the slope
``psi'(shift)`` at 0: this is how multipliers enter (see `dualgap.smoothing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def value(s: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
    """``psi(s)``, elementwise."""
    size = np.abs(s)
    return np.asarray(size * (size / (size + eps)))


def slope(s: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
    """``psi'(s)``, elementwise."""
    size = np.abs(s)
    share = size / (size + eps)
    return np.asarray(np.copysign(share * (2.0 - share), s))


def curvature(s: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
    """``psi''(s)``, elementwise."""
    near = eps / (np.abs(s) + eps)
    return np.asarray(2.0 / eps * near * near * near)

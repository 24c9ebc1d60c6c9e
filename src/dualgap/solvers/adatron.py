"""The kernel adatron: one variable at a time, for models without a bias or with a penalised one.

Problem (see `dualgap.problem`), without equality constraints::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi

Variants:

``paper``
    The classical rule in the order of the variables, ``a_i <- clip(a_i + rate (1 - y_i f(x_i)))`` for a C-SVC, that is
    ``a_i - rate (Ha + f0)_i`` (MPD paper, section 4.2). It converges where ``rate * H_ii < 2`` for all i.
``improved``
    The exact step ``-(Ha + f0)_i / H_ii``, clipped, of the variable that gains most; variables that look settled are
    set aside. MPD with k = 0 and one point at a time.

Cost of an iteration: one kernel row (cached) and O(n). Use it as the reference of the family that MPD grew from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.box_descent import FLAT, BoxDescent, refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.result import Outcome, Snapshot


@dataclass(frozen=True)
class Options:
    """Settings of `adatron`.

    Attributes
    ----------
    tol : float
        KKT violation to reach: the largest slope that a variable could follow.
    first_tol : float
        The violation to reach first; it is then divided by 10 until `tol`. Not below `tol`.
    max_iter : int
        Steps at most; -1 for no limit.
    variant : {"improved", "paper"}
        See the module's text.
    rate : float or None
        Learning rate of ``paper``; None for one over the largest diagonal entry of H.
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.variant not in ("improved", "paper"):
            raise ValueError(f"variant must be 'improved' or 'paper' for solver 'adatron'; got {self.variant!r}.")
        if self.rate is not None and not 0.0 < self.rate < np.inf:
            raise ValueError(f"rate must be a positive number or None; got {self.rate!r}.")
        if self.rate is not None and self.variant != "paper":
            raise ValueError("rate is for variant='paper'; the steps of 'improved' are exact.")


def _diagonal(problem: DualQP) -> NDArray[np.float64]:
    return np.maximum(problem.gram.diag()[problem.index] + problem.ridge, FLAT)


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    reason = refusal(problem, "adatron")
    if reason is None and options is not None and options.rate is not None:
        largest = float(_diagonal(problem).max())
        if not options.rate * largest < 2.0:
            return (
                f"rate={options.rate:g} is too large to converge where the diagonal of H reaches {largest:.6g}; "
                f"rate times it must be below 2, so use rate < {2.0 / largest:.6g}"
            )
    return reason


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (any point of the box; zero when None)."""
    diagonal, improved = _diagonal(problem), options.variant == "improved"
    rate = 1.0 / float(diagonal.max()) if options.rate is None else options.rate
    return BoxDescent(
        problem,
        callback,
        start,
        rate=1.0 / diagonal if improved else np.full(problem.n, rate),
        generator=None,
        greedy=improved,
        shrinking=improved,
        tol=options.tol,
        first_tol=options.first_tol,
        max_iter=options.max_iter,
    ).run()

"""Successive over-relaxation: sweeps of one-variable steps, for models without a bias or with a penalised one.

Problem (see `dualgap.problem`), without equality constraints::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi

Each variable in turn makes the step ``a_i <- clip(a_i - omega (Ha + f0)_i / H_ii)`` with a relaxation factor omega in
(0, 2) (Mangasarian and Musicant; MPD paper, section 4.2, eq. 3). With omega = 1 these are Gauss-Seidel steps, exact
minimisers along a coordinate.

Variants: ``paper`` sweeps in the order of the variables; ``improved`` draws a new order for every sweep and sets
variables aside that look settled.

Cost of an iteration: one kernel row (cached) and O(n); a variable that cannot move costs nothing. Use it for dual
problems without a bias constraint whose kernel rows fit into the cache.
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
    """Settings of `sor`.

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
    omega : float
        Relaxation factor in (0, 2).
    seed : int
        Of the orders (``improved``).
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"
    omega: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.variant not in ("improved", "paper"):
            raise ValueError(f"variant must be 'improved' or 'paper' for solver 'sor'; got {self.variant!r}.")
        if not 0.0 < self.omega < 2.0:
            raise ValueError(f"omega must lie between 0 and 2, both excluded; got {self.omega!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    return refusal(problem, "sor")


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (any point of the box; zero when None)."""
    diagonal = np.maximum(problem.gram.diag()[problem.index] + problem.ridge, FLAT)
    improved = options.variant == "improved"
    return BoxDescent(
        problem,
        callback,
        start,
        rate=options.omega / diagonal,
        generator=np.random.default_rng(options.seed) if improved else None,
        greedy=False,
        shrinking=improved,
        tol=options.tol,
        first_tol=options.first_tol,
        max_iter=options.max_iter,
    ).run()

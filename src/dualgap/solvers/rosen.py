"""Rosen's gradient projection: faces of the box, solved by projected (conjugate) gradients.

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

A face is the set of points with the same variables at their bounds; J are the free ones. With the gradient g, a step of
the paper (``variant="paper"``), here for y'a = 0 and N free variables:

1. Project: ``d_i = -g_i + y_i/N sum_{j in J} y_j g_j`` for i in J, 0 elsewhere.
2. Where d = 0 (its entries differ by less than `tol`), take the multipliers of the bounds (4), ``u_i = g_i - y_i/N
   sum_J y_j g_j`` at 0 and the negative of this at C, release the most negative one and project with it in J (5). With
   no free variable N = 0, and one variable cannot move alone: the pair that violates most is released.
3. Go to the minimiser ``-g'd / d'Hd`` along d, clipped at the first bound. ``a += t d, g += t Hd``.

``variant="improved"``, the default, keeps the faces and changes what makes this slow:

1. Directions on a face are conjugate (`_rosen_face`); steps may be bent, so that many variables reach bounds at once.
2. Bounds are released as soon as the face is solved better than the rest, as many together as the projection of minus
   the gradient onto the cone of feasible directions frees (`_rosen_projection`). All negative multipliers at once,
   which looks like the same, can be infeasible.
3. While a face is being solved, the gradient is kept up for the working set alone (free variables and those released
   with them); all others catch up before the next release.

Any constraints will do for it: projections take one multiplier a group, or k of them where constraints are coupled.

Cost of a step: a product with H over the working set (n times the free variables for ``paper``), from cached kernel
rows; for each release, n times the variables that have moved. Use it to take an approximate solution to high accuracy
(`solve`'s ``polish="rosen"``), and where the free variables are few: up to some thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.constraints import feasible_start
from dualgap.solvers._rosen_improved import improved_steps
from dualgap.solvers._rosen_paper import paper_steps
from dualgap.solvers._rosen_run import Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.result import Outcome, Snapshot


@dataclass(frozen=True)
class Options:
    """Settings of `rosen`.

    Attributes
    ----------
    tol : float
        KKT violation to reach: the two thresholds of every group are at most this far apart.
    first_tol : float
        The violation to reach first; it is then divided by 10 until `tol` (``paper`` only, which solves every face
        to this violation). Not below `tol`.
    max_iter : int
        Steps at most (one direction, one line search each); -1 for no limit.
    variant : {"improved", "paper"}
        Conjugate gradients with several releases at a time, or the steps of the paper.
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"

    def __post_init__(self) -> None:
        if self.variant not in ("improved", "paper"):
            raise ValueError(f"variant must be 'improved' or 'paper' for solver 'rosen'; got {self.variant!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if options is not None and options.variant == "paper" and problem.groups is None:
        return (
            f"variant 'paper' projects onto constraints that fall apart into groups, and the {problem.k} equality "
            f"constraints of this problem are coupled; variant 'improved' takes them"
        )
    return None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (a feasible point; found here when None)."""
    a = feasible_start(problem) if start is None else np.clip(start, problem.lo, problem.hi)
    run = Run(problem, callback, a, options.max_iter)
    if options.variant == "paper":
        return paper_steps(run, options.tol, options.first_tol)
    return improved_steps(run, options.tol)

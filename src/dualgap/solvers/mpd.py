"""MPD, the minimal primal-dual method: one-point steps on the variables, Newton steps on the multipliers.

Problem (see `dualgap.problem`), with any number k of equality constraints::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

The constraints are relaxed by multipliers eta (MPD paper, eq. 4), ``g(eta) = min over the box of L(a, eta)`` (5) is
maximised: for fixed eta the variables move one at a time, clipped (6); whenever they have settled, eta makes a Newton
step with the gradient ``F'a - e`` (7) and an estimate of the Hessian (8). The bias and all free coefficients of the
model are eta.

Variants:

``improved``
    The Hessian is the full k x k matrix with variables at bounds clamped, a penalty keeps it definite where H is
    singular, steps on eta are cut where the dual function falls, and free variables are settled by Newton's method
    (`_mpd_dense`). Working sets of up to 1024 variables, whose matrix is held, are solved as wholes; large problems
    start from the solution of a random part (`_mpd_coarse`).
``paper``
    Algorithm 1 of the paper, one point and one row at a time, a diagonal Hessian estimated by Gauss-Seidel steps on
    ``H gamma_i = -f_i``, corrected where the printed signs are wrong (`_mpd_paper`).

The variables meet ``F'a = e`` only in the limit. What is missing at the end is removed by moving free variables, and
the run goes on where that does harm.

Cost: improved, O(q) a step and ``q n`` kernel entries a working set of q; paper, k + 1 rows and O(k n) a step. Use it
for semi-parametric models, with any number of functions, and where boxes are narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dualgap.solvers._mpd_paper import Paper
from dualgap.solvers._mpd_working_sets import WorkingSets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.result import Outcome, Snapshot

# `run` keeps BLAS to one thread meanwhile.
OWN_THREADS = True


@dataclass(frozen=True)
class Options:
    """Settings of `mpd`.

    Attributes
    ----------
    tol : float
        KKT violation to reach; for ``paper`` both thresholds, of the slopes and of ``|F'a - e|``.
    first_tol : float
        The violation to reach first; it is then divided by 10 until `tol`. Not below `tol`.
    max_iter : int
        One-point steps at most; -1 for no limit.
    variant : {"improved", "paper"}
        See the module's text.
    working_set : int
        Variables of a working set (``improved``), whose matrix is held in float64.
    seed : int
        Of the random part that large problems start from (``improved``).
    precision : {"auto", "single", "double"}
        Of the kernel entries (``improved``). "auto" is double where one working set holds all variables, else single;
        from there `run` goes on to double where rounded entries lead no further.
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"
    working_set: int = 1024
    seed: int = 0
    precision: str = "auto"

    def __post_init__(self) -> None:
        if self.variant not in ("improved", "paper"):
            raise ValueError(f"variant must be 'improved' or 'paper' for solver 'mpd'; got {self.variant!r}.")
        if self.working_set < 2:
            raise ValueError(f"working_set must be at least 2 for solver 'mpd'; got {self.working_set!r}.")
        if self.precision not in ("auto", "single", "double"):
            raise ValueError(
                f"precision must be 'auto', 'single' or 'double' for solver 'mpd'; got {self.precision!r}."
            )


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    return None


def sharper(options: Options) -> Options | None:
    """Settings for a run that rounding has brought to a halt; None when there are none."""
    if options.variant == "improved" and options.precision != "double":
        return replace(options, precision="double")
    return None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (any point of the box; zero when None)."""
    if options.variant == "paper":
        return Paper(problem, options, callback, start).run()
    return WorkingSets(problem, options, callback, start).run()

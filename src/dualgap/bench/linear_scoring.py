"""The judge of linear machines: how far the weights of anybody are from the best possible objective, at most.

Libraries of linear machines publish weights w and no dual variables, so that their solutions have no duality gap. They
have a primal objective P(w), and every dual feasible point has a dual objective D below the least P there is. With the
largest D known, that of a tight run of dualgap whose gap is certified, ``(P(w) - D) / P(w)`` bounds the relative
suboptimality from above, by no more than that run's own gap too much. The same is computed for dualgap's weights; its
own duality gap, for which no other run is needed, is reported beside it, after its primal objective has been checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.scoring import Score
from dualgap.certificate import certify
from dualgap.formulations import build
from dualgap.kernels.linear_gram import LinearGram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.linear_problems import LinearMachine
    from dualgap.problem import DualQP
    from dualgap.result import Certificate

# Rows of the formulation table.
ROW = {"hinge": "c_svc", "squared_hinge": "squared_hinge"}
# The least relative suboptimality that is told apart from rounding in sums of a million terms.
_RESOLUTION = 1e-13
# How far a certificate's primal objective may be from that of the weights it belongs to: rounding of both sums.
_SAME = 1e-9


def linear_problem(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int | None = None) -> DualQP:
    """The dual of a linear machine; an intercept is a constant in the Gram matrix."""
    gram = LinearGram(X, 1.0 if machine.intercept else 0.0, threads)
    return build(ROW[machine.loss], gram, y, C=machine.C, bias=False)


def primal_objective(X: Any, y: NDArray[np.float64], machine: LinearMachine, w: NDArray[np.float64], b: float) -> float:
    """``1/2 (|w|^2 + b^2) + C sum_i loss_i`` in float64."""
    short = np.maximum(1.0 - y * (X @ w + b), 0.0)
    losses = short @ short if machine.loss == "squared_hinge" else short.sum()
    return float(0.5 * (w @ w + b * b) + machine.C * losses)


@dataclass(frozen=True)
class Weights:
    """What a library found.

    Attributes
    ----------
    w : ndarray, shape (d,)
        Weights of the features, for the label +1.
    b : float
        Intercept, 0 where there is none.
    a : ndarray or None
        Dual variables, of the reference.
    claimed : tuple of float or None
        Primal objective and relative gap that dualgap's own certificate states.
    history : list of (seconds, relative gap)
        What dualgap believed on the way.
    solver : str
        Which solver dualgap took.
    """

    w: NDArray[np.float64]
    b: float = 0.0
    a: NDArray[np.float64] | None = None
    claimed: tuple[float, float] | None = None
    history: list[tuple[float, float]] = field(default_factory=list)
    solver: str = ""


class LinearJudge:
    """Scores the weights of one problem against a reference.

    Parameters
    ----------
    X : ndarray or CSR matrix, shape (n, d)
        The samples as the libraries get them.
    y : ndarray
        +1 and -1.
    machine : LinearMachine
        What was to be solved.
    """

    def __init__(self, X: Any, y: NDArray[np.float64], machine: LinearMachine) -> None:
        self.X, self.y, self.machine = X, y, machine
        self.problem = linear_problem(X, y, machine)
        self.dual: float | None = None
        self.resolution = _RESOLUTION

    def refer_to(self, solution: Weights) -> Certificate:
        """Take the certified dual objective of this solution as the reference."""
        assert solution.a is not None
        certificate, _ = certify(self.problem, solution.a)
        self.dual = certificate.dual
        # Solutions that are better than the reference are not told apart: all are as good as its own gap, at least.
        self.resolution = max(certificate.relative_gap, _RESOLUTION)
        return certificate

    def score(self, solution: Weights) -> Score:
        """The relative suboptimality of a solution at most, and its own certified gap where it has one."""
        if self.dual is None:
            raise ValueError("there is no reference to measure it by")
        w = np.asarray(solution.w, dtype=np.float64)
        if w.shape != (self.X.shape[1],) or not np.all(np.isfinite(w)):
            raise ValueError("its weights are not finite numbers, one a feature")
        primal = primal_objective(self.X, self.y, self.machine, w, solution.b)
        gap = max((primal - self.dual) / max(primal, np.finfo(np.float64).tiny), self.resolution)
        if solution.claimed is None:
            return Score(gap)
        stated, certified = solution.claimed
        if abs(stated - primal) > _SAME * primal:
            raise ValueError(
                f"its certificate states a primal objective of {stated:.9g}, its weights have {primal:.9g}"
            )
        return Score(gap, certified=certified)

"""What a path returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.result import Certificate, Status


@dataclass(frozen=True, eq=False)
class PathResult:
    """The solutions along a path, in the order in which the values were given.

    Attributes
    ----------
    parameter : str
        What varies: "C", "nu", "gamma" or "epsilon".
    values : ndarray, shape (n_values,)
        Its values.
    objectives : ndarray, shape (n_values,)
        Primal objectives.
    certificates : tuple of Certificate
        The proof of each solution.
    statuses : tuple of Status
        How each run ended; a value that was skipped has converged.
    n_support : ndarray of int, shape (n_values,)
        Support vectors.
    coefficients : scipy.sparse.csr_matrix, shape (n_values, n_samples)
        Of the kernel expansion, a row a value.
    intercepts : ndarray, shape (n_values,)
        Biases.
    validation_errors : ndarray of shape (n_values,) or None
        Fraction of wrong labels, or mean squared error of regression, on held-out samples (mean over folds).
    fold_errors : ndarray of shape (n_values, n_folds) or None
        The same for each fold (one column with ``validation=``).
    seconds : ndarray, shape (n_values,)
        Wall time of each value, without folds; values may have been solved at the same time.
    iterations : ndarray of int, shape (n_values,)
        Steps of the solver.
    skipped : ndarray of bool, shape (n_values,)
        Where the start was proved to be good enough and no solver ran.
    start_gaps : ndarray, shape (n_values,)
        Relative gap of the start, known before the solver ran; NaN where it would have cost a kernel product.
    bounds : ndarray, shape (n_values, 2)
        Lower and upper bound of the optimum from the solution before (`restart_bounds`); NaN where there is none.
    gamma : float
        Coefficient of the kernel, unless it is what varies.
    """

    parameter: str
    values: NDArray[np.float64]
    objectives: NDArray[np.float64]
    certificates: tuple[Certificate, ...]
    statuses: tuple[Status, ...]
    n_support: NDArray[np.int64]
    coefficients: Any
    intercepts: NDArray[np.float64]
    validation_errors: NDArray[np.float64] | None
    fold_errors: NDArray[np.float64] | None
    seconds: NDArray[np.float64]
    iterations: NDArray[np.int64]
    skipped: NDArray[np.bool_]
    start_gaps: NDArray[np.float64]
    bounds: NDArray[np.float64]
    gamma: float

    def __len__(self) -> int:
        return len(self.values)

    @property
    def relative_gaps(self) -> NDArray[np.float64]:
        """The certified relative gaps."""
        return np.array([certificate.relative_gap for certificate in self.certificates])

    @property
    def best(self) -> int:
        """Position of the least validation error, the first one of equals."""
        if self.validation_errors is None:
            raise ValueError("This path has no validation errors; pass validation=(X, y) or cv= to svm_path.")
        return int(np.argmin(self.validation_errors))

    def as_rows(self) -> list[dict[str, Any]]:
        """A dictionary a value, ready for JSON or a data frame; what is not known is None."""
        rows = []
        for k in range(len(self)):
            row: dict[str, Any] = {
                self.parameter: float(self.values[k]),
                "objective": float(self.objectives[k]),
                "dual": self.certificates[k].dual,
                "relative_gap": self.certificates[k].relative_gap,
                "kkt_violation": self.certificates[k].kkt_violation,
                "status": self.statuses[k].name,
                "n_support": int(self.n_support[k]),
                "intercept": float(self.intercepts[k]),
                "lower_bound": float(self.bounds[k, 0]),
                "upper_bound": float(self.bounds[k, 1]),
                "start_gap": float(self.start_gaps[k]),
                "skipped": bool(self.skipped[k]),
                "iterations": int(self.iterations[k]),
                "seconds": float(self.seconds[k]),
            }
            if self.validation_errors is not None:
                row["validation_error"] = float(self.validation_errors[k])
            rows.append({name: None if value != value else value for name, value in row.items()})
        return rows

"""Linear machines fitted to rows that are not in memory: what `LinearSVC` and `LinearSVR` do with a `RowBlocks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.formulations import FORMULATIONS
from dualgap.out_of_core import solve_streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.row_blocks import RowBlocks
    from dualgap.out_of_core import StreamedResult

# Solvers of the estimators that can work on rows one batch at a time, and what that is called there. Newton's method
# has two forms, one of them for losses with a kink.
_METHODS = {"auto": "auto", "dcd": "blocks"}


def check_streamed(model: Any, blocks: RowBlocks, y: Any) -> Any:
    """The labels; an error for what is only for data in memory."""
    if model.parametric is not None:
        raise ValueError("parametric is not available on data that is not in memory; leave it out.")
    if model.solver not in (*_METHODS, "newton"):
        raise ValueError(
            f"solver={model.solver!r} needs the data in memory; use 'auto', 'newton' or 'dcd' for streamed rows."
        )
    if model.solver_options:
        raise ValueError("solver_options are for data in memory; leave them out for streamed rows.")
    if model.checkpoint is not None:
        raise ValueError("checkpoint is not available on data that is not in memory; use time_limit, or leave it out.")
    labels = blocks.y if y is None else np.asarray(y)
    if labels is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, and these rows have no labels of their own.")
    if labels.shape != (blocks.shape[0],):
        raise ValueError(f"y must have one label a row: shape ({blocks.shape[0]},); got {labels.shape}.")
    model.n_features_in_ = blocks.shape[1]
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    return labels


def solve_rows(
    model: Any, row: str, blocks: RowBlocks, target: NDArray[np.float64], weight: NDArray[np.float64], number: int
) -> StreamedResult:
    """Solve the task of this number."""
    constant, bias = model._bias()
    newton = "newton" if FORMULATIONS[row].squared else "nearest"
    task = model._session.task(number, (blocks.shape[1],))
    result = solve_streamed(
        blocks,
        target,
        row,
        **{name: float(getattr(model, name)) for name in FORMULATIONS[row].parameters},
        sample_weight=weight,
        constant=constant,
        bias=bias,
        method=_METHODS.get(model.solver, newton),
        gap_tol=model._goal(),
        max_iter=model.max_iter,
        time_limit=model.time_limit,
        callback=task.callback,
        seed=int(np.random.default_rng(model.random_state).integers(2**31)) if _seeded(model.random_state) else 0,
        n_jobs=model.n_jobs,
    )
    ended: StreamedResult = task.ended(result.weights, result)
    return ended


def _seeded(random_state: Any) -> bool:
    """Whether a number was given: equal fits are equal where nothing else was asked for."""
    return isinstance(random_state, int | np.integer)


def streamed_values(blocks: RowBlocks, values: Any, columns: int) -> NDArray[np.float64]:
    """What a function makes of matrices, for rows that come in batches."""
    out = np.empty((blocks.shape[0], columns))
    for pieces, X in blocks.batches():
        out[blocks.rows(pieces)] = values(X)
    return out

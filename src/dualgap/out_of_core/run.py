"""`solve_streamed`: the door to machines over data that is not in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.threads import one_blas_thread
from dualgap.out_of_core.batches import Machine
from dualgap.out_of_core.descent import Descent
from dualgap.out_of_core.nearest import Nearest
from dualgap.out_of_core.newton import Newton
from dualgap.out_of_core.watch import Watch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.row_blocks import RowBlocks
    from dualgap.result import Certificate, Event, History, Status

ROWS = ("c_svc", "squared_hinge", "eps_svr", "squared_eps_svr")
METHODS: dict[str, type[Descent] | type[Newton] | type[Nearest]] = {
    "blocks": Descent,
    "newton": Newton,
    "nearest": Nearest,
}
# Features up to which "auto" takes Newton's method: a matrix of 8 MB, and a pass that costs a few times as much.
FEW_FEATURES = 1000


@dataclass(frozen=True)
class StreamedResult:
    """A solution with its proof.

    Attributes
    ----------
    weights : ndarray
        Weights of the features.
    bias : float
        The bias, penalised or not; 0 without one.
    certificate, history, status
        The judgement, the events and how it ended.
    solver : str
        "newton", "nearest" or "blocks".
    iterations : int
        Passes over the data, or epochs ("blocks").
    seconds : float
        Wall time.
    """

    weights: NDArray[np.float64]
    bias: float
    certificate: Certificate
    history: History
    status: Status
    solver: str
    iterations: int
    seconds: float


def solve_streamed(
    blocks: RowBlocks,
    y: Any,
    row: str = "c_svc",
    *,
    C: float = 1.0,
    epsilon: float = 0.1,
    sample_weight: Any = None,
    constant: float = 0.0,
    bias: bool = False,
    method: str = "auto",
    gap_tol: float = 1e-4,
    max_iter: int = -1,
    time_limit: float | None = None,
    callback: Callable[[Event], bool | None] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> StreamedResult:
    """Solve a linear machine over rows that are not in memory, and certify the answer.

    Parameters
    ----------
    blocks : RowBlocks
        The rows.
    y : array-like
        +1 and -1 for classification, targets for regression.
    row : {"c_svc", "squared_hinge", "eps_svr", "squared_eps_svr"}
        Which machine.
    C, epsilon : float
        Its parameters.
    sample_weight : array-like or None
        Rescales C a sample.
    constant : float
        Of a penalised bias, a feature of the value ``sqrt(constant)``; 0 for none.
    bias : bool
        Whether there is a bias that is not penalised (not for "blocks").
    method : {"auto", "newton", "nearest", "blocks"}
        For few features Newton's method (squared losses) or the rows next to the kink (the others), for many block
        minimisation.
    gap_tol : float
        Relative duality gap to reach.
    max_iter : int
        Passes, or epochs ("blocks"), at most; -1 for no limit.
    time_limit : float or None
        Seconds at most, looked at between batches; the pass that proves the gap comes on top.
    callback : callable or None
        Called with an `Event` after every batch or pass; returning True stops the run.
    seed : int
        Of the order of pieces and rows.
    n_jobs : int or None
        Threads (not for "blocks"); results do not depend on it.

    Returns
    -------
    StreamedResult
    """
    if row not in ROWS:
        raise ValueError(f"{row!r} is not available on data that is not in memory; choose one of {', '.join(ROWS)}.")
    if method not in ("auto", *METHODS):
        raise ValueError(f"method must be 'auto' or one of {', '.join(METHODS)}; got {method!r}.")
    if not 0.0 < C < np.inf:
        raise ValueError(f"C must be a positive number; got {C!r}.")
    if not gap_tol > 0.0:
        raise ValueError(f"gap_tol must be a positive number; got {gap_tol!r}.")
    few = blocks.shape[1] <= FEW_FEATURES
    method = _choice(row, few) if method == "auto" else method
    if method in ("newton", "nearest") and (method == "newton") != row.startswith("squared"):
        raise ValueError(f"method='newton' is for squared losses and 'nearest' for the others; {row} needs the other.")
    if bias and method == "blocks":
        raise ValueError(
            f"a bias without penalty needs Newton's method on data that is not in memory, which is for up to "
            f"{FEW_FEATURES} features; penalise it (penalize_intercept=True, with a larger intercept_scaling), or "
            f"leave it out."
        )
    n = blocks.shape[0]
    target = np.asarray(y, dtype=np.float64)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for name, values in (("y", target), ("sample_weight", weight)):
        if values.shape != (n,):
            raise ValueError(f"{name} must have shape ({n},), one value a row; got {values.shape}.")
    parameters = {"C": C, "epsilon": epsilon} if row.endswith("svr") else {"C": C}
    machine = Machine(blocks, target, weight, row, parameters, constant, bias, n_jobs)
    watch = Watch(time_limit, callback)
    with one_blas_thread():
        run = METHODS[method](machine, gap_tol, max_iter, seed, watch)
        certificate, status = run.run()
    return StreamedResult(
        run.weights, run.bias, certificate, watch.history, status, run.name, run.iterations, watch.elapsed()
    )


def _choice(row: str, few: bool) -> str:
    if not few:
        return "blocks"
    return "newton" if row.startswith("squared") else "nearest"

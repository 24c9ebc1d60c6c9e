"""First weights: those of random rows, solved in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.constraints import InfeasibleProblemError
from dualgap.kernels.linear_gram import LinearGram
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.out_of_core.batches import Machine
    from dualgap.out_of_core.watch import Watch

# The sample is solved to this gap, or to the one asked for where that is larger: it is good to no more.
_SAMPLE_GAP = 1e-3


def sampled_weights(
    machine: Machine, gap_tol: float, seed: int, watch: Watch
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (that of a penalised constant included) and bias of random rows, and their distances from the kink.

    Rows are drawn from all over the data, for neighbours are often alike. Their weights are raised by as much as there
    are fewer of them. Where they cannot be solved (one class only), the weights are 0.
    """
    blocks = machine.blocks
    x = np.zeros(blocks.shape[1] + (2 if machine.constant > 0.0 else 1))
    used = np.flatnonzero(machine.weight > 0.0)
    if used.size > machine.capacity:
        used = np.sort(np.random.default_rng(seed).choice(used, machine.capacity, replace=False))
    share = float(machine.weight[used].sum() / machine.weight.sum())
    if machine.copies == 1 and np.unique(machine.y[used]).size < 2:
        return x, np.ones(1)
    p = machine.batch(used, machine.gather(used), bias=machine.bias, share=share).problem
    limit = None if watch.time_limit is None else max(1e-3, watch.time_limit - watch.elapsed())
    goal = max(_SAMPLE_GAP, gap_tol)
    try:
        result = solve(p, "newton", gap_tol=goal, warn=False, time_limit=limit, n_jobs=machine.n_jobs)
    except InfeasibleProblemError:
        return x, np.ones(1)
    assert isinstance(p.gram, LinearGram)
    operator, support = p.gram.operator, np.flatnonzero(result.a)
    x[:-1] = operator.transposed((p.sign * result.a)[support], p.index[support])
    x[-1] = float(result.eta[0]) if p.k else 0.0
    slopes = p.sign * (operator.products(x[:-1]) + x[-1])[p.index] + p.f0
    return x, np.abs(slopes).reshape(machine.copies, -1).min(axis=0)

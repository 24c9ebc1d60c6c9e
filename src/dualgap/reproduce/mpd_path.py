"""Figure 1 of the MPD paper: both kinds of violation and eta_1 by iteration, on two Gaussians of 20 points each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.formulations import build
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram
from dualgap.solvers import mpd
from dualgap.solvers._mpd_paper import Paper

if TYPE_CHECKING:
    from dualgap.problem import DualQP

# Both thresholds of the paper.
_TOL = 0.01
# The paper's run took 630 iterations; far beyond that something is wrong.
_MOST = 200_000
# One more stop of the run is drawn after so many iterations: it tells of itself only between chunks.
_EVERY = 10


@dataclass(frozen=True)
class Path:
    """Columns by iteration: KKT violation of the variables, of the equality constraint, and eta_1."""

    iterations: list[float]
    slopes: list[float]
    constraints: list[float]
    eta: list[float]
    converged: bool
    dual_updates: int


def two_gaussians(seed: int = 0) -> DualQP:
    """The paper's toy problem: means sqrt(2) apart, standard deviation 1, C = 1000 (box C/m), Gaussian of width 1."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1.0, -1.0], 20)
    X = rng.normal(size=(40, 2)) + 0.5 * np.outer(y, [1.0, 1.0])  # +-(1/2, 1/2) are sqrt(2) apart
    return build("c_svc", make_gram(X, Kernel("rbf", gamma=0.5)), y, C=1000.0 / 40)


def follow(seed: int = 0, *, every: int = _EVERY) -> Path:
    """Run the paper's variant once for every so many iterations, and look at its state where it stops."""
    problem = two_gaussians(seed)
    whole = _stop_after(problem, _MOST)
    stops = [*range(every, whole.iterations, every), whole.iterations]
    rows = []
    for stop in stops:
        run = whole if stop == whole.iterations else _stop_after(problem, stop)
        off = float(np.abs(run.off).max())
        rows.append((float(stop), float(run.violation), off, float(run.eta[0])))
    iterations, slopes, constraints, eta = (list(column) for column in zip(*rows, strict=True))
    return Path(iterations, slopes, constraints, eta, whole.iterations < _MOST, whole.renewals)


def _stop_after(problem: DualQP, most: int) -> Paper:
    """The state of a run after so many iterations; it is the same each time up to there."""
    run = Paper(problem, mpd.Options(tol=_TOL, variant="paper", max_iter=most), lambda _: False, None)
    run.run()
    return run

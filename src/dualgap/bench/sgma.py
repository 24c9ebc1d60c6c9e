"""Error against number of basis functions on USPS (the lecture's Fig. 10.3), with randomly pivoted Cholesky beside it.

The lecture says "Gaussian kernel, USPS data" and gives no width. Taken is the one customary for these data,
``exp(-|x - z|^2 / 128)``, half the number of pixels, with pixels from -1 to 1. Errors are ``tr(K - K~) / tr(K)``; of
random choices the mean over several seeds is drawn, and a band from the least to the largest. No matrix of rank r has a
smaller error than that of the first r eigenvectors (PCA), which need all n functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.plot import check_plot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.lowrank import LowRankGram

GAMMA = 1.0 / 128.0
# Basis functions of the lecture's claim "first ten basis functions correspond to 9 of the 10 digits".
FIRST = 10
_SEEDS = 5
# Okabe and Ito's colours, which the colour-blind can tell apart; lines differ in style as well.
_LOOK: dict[str, tuple[str, Any]] = {
    "random": ("#D55E00", (0, (1, 1))),
    "rpcholesky": ("#CC79A7", (0, (5, 1, 1, 1))),
    "best of 59": ("#0072B2", "-"),
    "greedy": ("#009E73", (0, (4, 1.5))),
    "PCA": ("#333333", (0, (2, 2))),
}
_INK, _GRID = "#333333", "#e3e3e3"


@dataclass(frozen=True)
class Curve:
    """One way to choose a basis.

    Attributes
    ----------
    name : str
        "random", "best of 59", "greedy", "rpcholesky" or "PCA".
    errors : ndarray, shape (seeds, most + 1)
        Relative error of the trace with 0, 1, ... basis functions, a row a seed.
    basis : tuple of ndarray
        The points chosen, by seed; empty for PCA.
    """

    name: str
    errors: NDArray[np.float64]
    basis: tuple[NDArray[np.intp], ...] = ()

    def classes_of_first(self, y: NDArray[Any]) -> float:
        """Different labels among the first ten basis functions, on average over the seeds."""
        return float(np.mean([len(np.unique(y[basis[:FIRST]])) for basis in self.basis]))


def read_usps() -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The training part of USPS: pixels and digits."""
    from dualgap.datasets import find, load

    data = load(find("usps"))
    assert data.y is not None
    X: Any = data.X
    return X.toarray(order="C"), data.y


def compute_curves(X: NDArray[Any], gamma: float = GAMMA, most: int = 300, seeds: int = _SEEDS) -> list[Curve]:
    """The errors of all ways to choose up to `most` basis functions."""
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import make_gram
    from dualgap.kernels.lowrank import rpcholesky, sgma

    gram = make_gram(X, Kernel("rbf", gamma=gamma), kind="cached")
    ways: dict[str, Callable[[int], LowRankGram]] = {
        "random": lambda seed: sgma(gram, most, selection="random", seed=seed),
        "rpcholesky": lambda seed: rpcholesky(gram, most, seed=seed),
        "best of 59": lambda seed: sgma(gram, most, seed=seed),
        "greedy": lambda seed: sgma(gram, most, selection="greedy", seed=seed),
    }
    curves = []
    for name, choose in ways.items():
        # Nothing is random about the greedy choice.
        found = [choose(seed) for seed in range(1 if name == "greedy" else seeds)]
        least = min(len(low.errors) for low in found)
        errors = np.array([low.errors[:least] / low.errors[0] for low in found])
        curves.append(Curve(name, errors, tuple(low.basis for low in found)))
    points = np.arange(gram.n)
    return [*curves, Curve("PCA", _tails(np.asarray(gram.block(points, points), dtype=np.float64), most)[None])]


def _tails(K: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Sums of the eigenvalues beyond the first 0, 1, ..., `most`, relative to all."""
    from scipy.sparse.linalg import eigsh

    total = float(np.trace(K))
    most = min(most, len(K) - 1)  # the last has no tail
    start = np.ones(len(K))  # a random one would change the last digits from run to run
    spectrum = np.sort(eigsh(K, k=most, return_eigenvectors=False, v0=start))[::-1]
    return np.asarray(np.maximum(1.0 - np.concatenate([[0.0], np.cumsum(spectrum)]) / total, 0.0))


def _plain_numbers(axes: Any) -> None:
    """Errors that span a decade or two are easier to read as 0.5 than as powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def save_curves(curves: list[Curve], path: Path, title: str) -> None:
    """Draw the curves into a file, in the format that its name asks for."""
    check_plot(path)
    from matplotlib.figure import Figure

    from dualgap.atomic import atomic_write

    figure = Figure(figsize=(6.4, 4.4), facecolor="white", layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        colour, style = _LOOK[curve.name]
        count = np.arange(curve.errors.shape[1])
        label = "PCA (lower bound)" if curve.name == "PCA" else curve.name
        axes.plot(count, curve.errors.mean(axis=0), color=colour, linestyle=style, linewidth=1.6, label=label)
        if len(curve.errors) > 1:
            low, high = curve.errors.min(axis=0), curve.errors.max(axis=0)
            axes.fill_between(count, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    _plain_numbers(axes)
    axes.set_xlim(0, max(curve.errors.shape[1] for curve in curves) - 1)
    axes.set_xlabel("number of basis functions", color=_INK)
    axes.set_ylabel("relative error  tr(K − K̃) / tr(K)", color=_INK)
    axes.set_title(title, loc="left", fontsize=11, color=_INK)
    axes.grid(True, which="both", color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", labelsize=9, colors=_INK, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor=_INK, handlelength=3.0)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix.lower().lstrip("."), dpi=150)

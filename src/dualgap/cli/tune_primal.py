"""``dualgap tune --linear --smoothing GRID --stop GRID``: C, eps and where to stop, by errors on a validation part.

As the SESOP paper has it (section 2.4): every combination is trained on one part of the samples and judged on another,
and the machine of the best one is tested on a third, which chose nothing.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dualgap.cli.choices import choose
from dualgap.cli.grids import grid, write_json
from dualgap.cli.output import counted, fact, seconds, standard, warn
from dualgap.cli.progress import Progress
from dualgap.cli.summary import tell_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dualgap.datasets import Dataset
    from dualgap.estimators.linear_search import PrimalTrial, PrimalTuning

_NORMS, _POWERS = {"l1": 1, "l2": 2}, {"hinge": 1, "squared_hinge": 2}
_PARTS = ("training", "validation", "test")
# Grids where only the other one is given: those of `tune_primal`.
_SMOOTHINGS, _STOPS = (1e-1, 1e-2, 1e-3), (1e-1, 1e-3, 1e-5)


@dataclass(frozen=True)
class Constants:
    """What is tried: values of C, of eps, and norms of the gradient to stop at."""

    Cs: list[float]
    epsilons: list[float]
    tols: list[float]

    @classmethod
    def of(cls, Cs: list[float], smoothing: str | None, stop: str | None) -> Constants:
        """Of the texts that the options hold."""
        found = cls(
            Cs,
            list(_SMOOTHINGS) if smoothing is None else grid(smoothing, "--smoothing"),
            list(_STOPS) if stop is None else grid(stop, "--stop"),
        )
        for option, values in (("-C", found.Cs), ("--smoothing", found.epsilons), ("--stop", found.tols)):
            if not all(value > 0.0 for value in values):
                raise ValueError(f"{option}: all values must be positive.")
        return found

    def __len__(self) -> int:
        return len(self.Cs) * len(self.epsilons) * len(self.tols)


@dataclass(frozen=True)
class Division:
    """Shares of the samples for validation and for the test (the rest is trained on), drawn by a seed."""

    validation: float
    test: float
    seed: int

    def __post_init__(self) -> None:
        if not (self.validation > 0.0 and self.test >= 0.0 and self.validation + self.test < 1.0):
            raise ValueError(
                f"--validation {self.validation:g} --test {self.test:g}: shares must be positive (that of the test may "
                "be 0), and leave samples to train on."
            )

    def parts(self, y: NDArray[np.float64]) -> list[NDArray[np.intp]]:
        """Rows for training, validation and test; each class is divided alike."""
        import numpy as np

        rng = np.random.default_rng(self.seed)
        parts: list[list[NDArray[np.intp]]] = [[], [], []]
        for label in (-1.0, 1.0):
            rows = rng.permutation(np.flatnonzero(y == label))
            valid, test = round(self.validation * rows.size), round(self.test * rows.size)
            ends = [rows.size - valid - test, rows.size - test]
            for part, chosen in zip(parts, np.split(rows, ends), strict=True):
                part.append(chosen)
        return [np.sort(np.concatenate(part)) for part in parts]


def tune_constants(
    data: Dataset,
    constants: Constants,
    penalty: str,
    loss: str,
    method: str,
    division: Division,
    json: Path | None,
    quiet: bool,
) -> None:
    """Choose the constants, say so in a table, test the choice, and write all trials where they are wanted."""
    import numpy as np

    if penalty not in _NORMS or loss not in _POWERS:
        raise ValueError(f"--penalty is one of {', '.join(_NORMS)}, and --loss of {', '.join(_POWERS)}.")
    row, why = choose(data, "auto", None)
    labels = np.unique(data.y) if data.y is not None else np.zeros(0)
    if row != "c_svc" or labels.size != 2:
        raise ValueError(f"{data.source}: --smoothing and --stop are for two classes; there are {labels.size} labels.")
    y = np.where(data.y == labels[1], 1.0, -1.0)
    parts = division.parts(y)
    if any(np.unique(y[part]).size < 2 for part in parts[:2]):
        raise ValueError("There are too few samples of one class for a part of each to train on and to validate by.")
    if not quiet:
        tell_data(data, row, why)
        sizes = [f"{part.size} {name}" for part, name in zip(parts, _PARTS, strict=True)]
        fact("parts", f"{', '.join(sizes)} (seed {division.seed})")
    began = time.perf_counter()
    found = _search(data.X, y, parts, constants, (_NORMS[penalty], _POWERS[loss]), method, quiet)
    took = time.perf_counter() - began
    tested = _error(data.X[parts[2]], y[parts[2]], found.x) if parts[2].size else None
    if not quiet:
        _tell(found, parts, tested, took)
    if json is not None:
        _write(found, parts, tested, took, str(data.source), {"penalty": penalty, "loss": loss, "method": method}, json)


def _search(
    X: Any,
    y: NDArray[np.float64],
    parts: list[NDArray[np.intp]],
    constants: Constants,
    machine: tuple[int, int],
    method: str,
    quiet: bool,
) -> PrimalTuning:
    from dualgap.estimators.linear_search import tune_primal

    train, valid, _ = parts
    done: list[PrimalTrial] = []
    with Progress("tuning", quiet=quiet) as progress:

        def tell(trial: PrimalTrial) -> None:
            done.append(trial)
            progress.work = f"tuning, {len(done)} of {len(constants)} combinations"

        return tune_primal(
            X[train],
            y[train],
            X[valid],
            y[valid],
            Cs=constants.Cs,
            epsilons=constants.epsilons,
            tols=constants.tols,
            p=machine[0],
            q=machine[1],
            method=method,
            callback=tell,
        )


def _error(X: Any, y: NDArray[np.float64], x: NDArray[np.float64]) -> float:
    """Share of the samples that weights and bias (the last entry) get wrong."""
    import numpy as np

    return float(np.mean(np.where(X @ x[:-1] + x[-1] > 0.0, 1.0, -1.0) != y))


def _tell(found: PrimalTuning, parts: list[NDArray[np.intp]], tested: float | None, took: float) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    for name in ("C", "eps", "stop at", "validation error", "iterations", "products", "time"):
        table.add_column(name, justify="right")
    for trial in found.trials:
        style = "bold green" if trial is found.best else ""
        cells = (f"{trial.C:.6g}", f"{trial.eps:.3g}", f"{trial.tol:.3g}", f"{100 * trial.error:.2f} %")
        costs = (str(trial.nit), str(trial.n_products), seconds(trial.seconds))
        table.add_row(*(Text(cell, style=style) for cell in cells + costs))
    standard().print(table)
    best = found.best
    fact("time", f"{seconds(took)} for {counted(len(found.trials), 'combination')}")
    fact("best", f"C = {best.C:.6g}, eps = {best.eps:.3g}, stop at a gradient of {best.tol:.3g}")
    fact("validation", f"{100 * best.error:.2f} % of {counted(parts[1].size, 'sample')} wrong, by which it was chosen")
    if tested is not None:
        fact("test", f"{100 * tested:.2f} % of {counted(parts[2].size, 'sample')} wrong, which chose nothing")
    ends = [
        (name, value)
        for name, value, tried in (
            ("C", best.C, {trial.C for trial in found.trials}),
            ("eps", best.eps, {trial.eps for trial in found.trials}),
        )
        if len(tried) > 1 and value in (min(tried), max(tried))
    ]
    for name, value in ends:
        warn(f"the best {name} = {value:g} is at an end of its grid; a wider one may hold a better.")


def _write(
    found: PrimalTuning,
    parts: list[NDArray[np.intp]],
    tested: float | None,
    took: float,
    source: str,
    machine: dict[str, str],
    path: Path,
) -> None:
    sizes = dict(zip(_PARTS, (int(part.size) for part in parts), strict=True))
    content = {
        "file": source,
        **machine,
        "seconds": took,
        "samples": sizes,
        "best": {**asdict(found.best), "test_error": tested},
        "weights": [float(value) for value in found.x],
        "trials": [asdict(trial) for trial in found.trials],
    }
    write_json(content, path)
    fact("saved", str(path))

"""``dualgap tune --linear``: choose C of a linear classifier by cross-validation."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from dualgap.cli.choices import choose, given
from dualgap.cli.grids import read, write_json
from dualgap.cli.output import counted, fact, seconds, size, standard, verdict
from dualgap.cli.progress import Progress
from dualgap.cli.summary import tell_data

_PENALTIES, _LOSSES = ("l1", "l2"), ("hinge", "squared_hinge")


def tune_linear(
    file: Path,
    Cs: list[float],
    penalty: str,
    loss: str,
    gamma: str | None,
    cv: int,
    label_column: str,
    header: bool | None,
    gap_tol: float | None,
    n_jobs: int | None,
    output: Path | None,
    json: Path | None,
    quiet: bool,
) -> None:
    """Choose C, say so, and write the model and all scores where they are wanted."""
    if penalty not in _PENALTIES or loss not in _LOSSES:
        raise ValueError(f"--penalty is one of {', '.join(_PENALTIES)}, and --loss of {', '.join(_LOSSES)}.")
    if gamma is not None:
        raise ValueError("--gamma means nothing to --linear.")
    if output is not None:
        _check_model_file()
    if cv < 2:
        raise ValueError(f"--cv {cv}: there must be at least 2 folds.")
    with Progress(f"reading {file.name}", quiet=quiet):
        data = read(file, label_column, header, "linear")
    row, why = choose(data, "auto", None)
    if row != "c_svc":
        raise ValueError(f"{file}: --linear tunes classifiers, and this looks like another task ({why}).")
    if not quiet:
        tell_data(data, row, why)
    search, took = _search(
        data, {"penalty": penalty, "loss": loss, **given({"gap_tol": gap_tol})}, Cs, cv, n_jobs, quiet
    )
    best = search.best_estimator_
    if not quiet:
        _tell(search)
        fact("time", f"{seconds(took)} for {counted(len(Cs) * cv, 'fit')}, and one with the best C")
        fact("best", f"C = {best.C:.6g}: accuracy {search.best_score_:.4f} by {cv}-fold cross-validation")
        fact("features", f"{int((best.coef_ != 0.0).any(axis=0).sum())} of {best.coef_.shape[1]} have a weight")
        fact("certificate", verdict(best.certificate_))
    _write(search, file, output, json, took)


def _check_model_file() -> None:
    """Find out, before any work is done, whether the model can be kept."""
    from dualgap.formats.model_layout import ESTIMATORS

    if "LinearSVC" not in ESTIMATORS:
        raise ValueError(f"--output: a model file holds one of {', '.join(ESTIMATORS)}; leave it out with --linear.")


def _search(
    data: Any, params: dict[str, Any], Cs: list[float], cv: int, n_jobs: int | None, quiet: bool
) -> tuple[Any, float]:
    from dualgap.estimators import LinearSVC
    from dualgap.estimators.linear_search import LinearSVCSearchCV

    search = LinearSVCSearchCV(LinearSVC(**params), Cs=Cs, cv=cv, n_jobs=n_jobs)
    began = time.perf_counter()
    with Progress("tuning", quiet=quiet), warnings.catch_warnings():
        # A class with fewer samples than folds is said by scikit-learn in terms of its own.
        warnings.filterwarnings("ignore", message="The least populated class")
        search.fit(data.X, data.y)
    return search, time.perf_counter() - began


def _tell(search: Any) -> None:
    results = search.cv_results_
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    for name in ("C", "accuracy", "deviation"):
        table.add_column(name, justify="right")
    for k, params in enumerate(results["params"]):
        style = "bold green" if k == search.best_index_ else ""
        score = Text(f"{results['mean_test_score'][k]:.4f}", style=style)
        table.add_row(f"{params['C']:.6g}", score, f"{results['std_test_score'][k]:.4f}")
    standard().print(table)


def _write(search: Any, file: Path, output: Path | None, json: Path | None, took: float) -> None:
    from dualgap.formats.model import save

    if output is not None:
        save(search.best_estimator_, output)
        fact("saved", f"{output} ({size(output)})")
    if json is not None:
        results = search.cv_results_
        rows = [
            {
                **params,
                "mean_test_score": float(results["mean_test_score"][k]),
                "std_test_score": float(results["std_test_score"][k]),
                "rank": int(results["rank_test_score"][k]),
            }
            for k, params in enumerate(results["params"])
        ]
        best = {**search.best_params_, "score": float(search.best_score_)}
        write_json({"file": str(file), "seconds": took, "best": best, "candidates": rows}, json)
        fact("saved", str(json))

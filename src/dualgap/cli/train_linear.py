"""``dualgap train --linear``: a linear machine on a file, in memory or, with ``--stream``, read some rows at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dualgap.cli.choices import choose, given, option
from dualgap.cli.files import compact, header_choice, label_choice
from dualgap.cli.fitting import watched_fit
from dualgap.cli.output import SHORT, counted, evidence, fact, seconds, size, verdict, warn
from dualgap.cli.progress import Progress
from dualgap.cli.scores import number, score
from dualgap.cli.summary import tell_data, warn_short

if TYPE_CHECKING:
    from dualgap.datasets import Dataset

# Losses by task; the first one is the usual one.
_LOSSES = {
    "c_svc": ("squared_hinge", "hinge"),
    "eps_svr": ("epsilon_insensitive", "squared_epsilon_insensitive"),
}
LOSS_NAMES = tuple(name for names in _LOSSES.values() for name in names)
_ESTIMATORS = {"c_svc": "LinearSVC", "eps_svr": "LinearSVR"}
# The relative gap that the linear estimators go to unless told otherwise.
_GAP = 1e-4
# Files that are no LIBSVM text, below what they may be compressed with.
_OTHER_FORMATS = (".csv", ".tsv", ".npz", ".npy")
_COMPRESSED = (".gz", ".bz2", ".xz")


@dataclass(frozen=True)
class Streaming:
    """How rows are read that need not fit into memory.

    Attributes
    ----------
    memory : float
        Megabytes for the rows that are in memory at a time.
    folder : Path or None
        Where the temporary rows go; beside the file when None.
    """

    memory: float
    folder: Path | None


@dataclass(frozen=True)
class Reading:
    """How a file is read into memory: see the options of these names."""

    label_column: str = "auto"
    header: bool | None = None
    float32: bool = False


@dataclass(frozen=True)
class LinearOrder:
    """What the command line asks for.

    Attributes
    ----------
    file : Path
        The samples.
    task : str
        What the labels are for, or "auto".
    loss : str or None
        The loss; the usual one of the task when None.
    params : dict
        Parameters of the estimator.
    reading : Reading
        How the file is read where it is read into memory.
    streaming : Streaming or None
        How the file is read where it need not fit into memory.
    output, report : Path or None
        Where model and page go.
    scored : bool or None
        Whether the training data is to be scored; None where it is small.
    most_scored : int
        Rows up to which it is small.
    quiet : bool
        Whether warnings and errors are all that is printed.
    """

    file: Path
    task: str
    loss: str | None
    params: dict[str, Any]
    reading: Reading
    streaming: Streaming | None
    output: Path | None
    report: Path | None
    scored: bool | None
    most_scored: int
    quiet: bool


def check_linear_options(on: bool, options: dict[str, Any], switch: str = "--linear") -> None:
    """An option that would be ignored is a mistake worth hearing about."""
    for name in given(options):
        if not on:
            raise ValueError(f"{option(name)} is for {switch}, which is not given.")


def check_linear_only(kernel: str | None, options: dict[str, Any]) -> None:
    """Likewise for options of kernel machines."""
    if kernel not in (None, "linear"):
        raise ValueError(f"--kernel {kernel}: --linear has no other kernel than linear; leave one of them out.")
    for name in given(options):
        remedy = "say --gap-tol" if name == "tol" else "leave it out"
        raise ValueError(f"{option(name)} means nothing to --linear; {remedy}.")


def check_tables(stream: bool, label_column: str, header: bool | None, float32: bool) -> None:
    """Likewise for options of files that are read as a whole."""
    given_ones = {"--label-column": label_column != "auto", "--header": header is not None, "--float32": float32}
    for name, wrong in given_ones.items():
        if stream and wrong:
            raise ValueError(f"{name} means nothing to --stream, which reads LIBSVM text as it is; leave it out.")


def check_streaming(file: Path, streaming: Streaming, params: dict[str, Any]) -> None:
    """Refuse what cannot be done with rows that are not in memory, before a long file is read."""
    from dualgap.kernels.row_blocks import check_memory

    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() not in _COMPRESSED]
    if suffixes and suffixes[-1] in _OTHER_FORMATS:
        raise ValueError(f"{file}: --stream reads LIBSVM text; leave it out, or write the samples in that format.")
    try:
        check_memory(streaming.memory)
    except ValueError:
        raise ValueError(f"--memory {streaming.memory:g}: must be at least 1 (megabyte).") from None
    if params.get("solver", "auto") not in ("auto", "newton", "dcd"):
        raise ValueError(f"--solver {params['solver']}: needs the data in memory; with --stream it is newton or dcd.")
    if params.get("checkpoint") is not None:
        raise ValueError("--checkpoint needs the data in memory; with --stream use --time-limit, or leave it out.")
    if streaming.folder is not None and not streaming.folder.is_dir():
        raise ValueError(f"--stream-dir {streaming.folder}: is no folder; create it first.")


def train_linear(order: LinearOrder) -> None:
    """Read, fit, say how it went, and write what is wanted."""
    if order.streaming is not None:
        check_streaming(order.file, order.streaming, order.params)
    with _samples(order) as data:
        row, why = choose(data, order.task, None)
        estimator = _estimator(order, row, why)
        if not order.quiet:
            _tell_data(data, row, why, order.streaming)
        took = _fit(estimator, data, row, order.quiet)
        _finish(order, estimator, data, took)
    if estimator.status_.name == "INTERRUPTED":
        warn(f"interrupted: the best model so far has a certified relative gap of {_gap(estimator):.1e}")
    elif estimator.fit_status_:
        warn_short(estimator)
        raise typer.Exit(SHORT)


@contextmanager
def _samples(order: LinearOrder) -> Iterator[Dataset]:
    """The samples, in memory or as rows on disk that go with the command."""
    from dualgap.datasets import Dataset, load
    from dualgap.datasets.streaming import stream_libsvm

    file = order.file
    if order.streaming is None:
        import numpy as np

        reading = order.reading
        with Progress(f"reading {file.name}", quiet=order.quiet):
            data = load(
                file,
                label_column=label_choice(reading.label_column),
                header=header_choice(reading.header),
                dtype=np.float32 if reading.float32 else np.float64,
            )
        yield Dataset(compact(data.X), data.y, data.feature_names, data.source)
        return
    folder = order.streaming.folder or file.parent
    with Progress(f"reading {file.name}", quiet=order.quiet) as progress:

        def tell(rows: int) -> None:
            progress.work = f"reading {file.name} into {folder}: {counted(rows, 'row')}"

        try:
            rows = stream_libsvm(file, memory=order.streaming.memory, cache_dir=folder, watch=tell)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ValueError(
                f"{folder}: no room for the temporary rows, which take about as much as the text; name another folder "
                f"with --stream-dir."
            ) from error
    with rows:
        yield Dataset(rows, rows.y, None, str(file))  # type: ignore[arg-type]


def _estimator(order: LinearOrder, row: str, why: str) -> Any:
    """The estimator, which has accepted its parameters."""
    from dualgap import estimators

    if row not in _LOSSES:
        remark = f" ({why})" if why else ""
        raise ValueError(f"{order.file}: --linear is for classification and regression{remark}; leave it out.")
    losses = _LOSSES[row]
    if order.loss is not None and order.loss not in losses:
        raise ValueError(f"--loss {order.loss}: is for the other task; choose one of {', '.join(losses)}.")
    params = dict(order.params)
    if row == "c_svc" and "epsilon" in params:
        raise ValueError("--epsilon means nothing to classifiers; it is for --task regression.")
    params.setdefault("gap_tol", _GAP)
    estimator = getattr(estimators, _ESTIMATORS[row])(loss=order.loss or losses[0], **params)
    estimator._validate_params()
    return estimator


def _tell_data(data: Dataset, row: str, why: str, streaming: Streaming | None) -> None:
    if streaming is None:
        tell_data(data, row, why)
        return
    samples, features = data.X.shape
    fact("data", f"{Path(data.source).name}: {counted(samples, 'sample')}, {counted(features, 'feature')}, on disk")
    fact("memory", f"{streaming.memory:g} MB of rows at a time")
    classes = "" if row != "c_svc" else f" into {counted(_classes(data), 'class', 'classes')}"
    task = "classification" if row == "c_svc" else "regression"
    fact("task", f"{task}{classes}" + (f" ({why}; --task chooses another)" if why else ""))


def _classes(data: Dataset) -> int:
    import numpy as np

    assert data.y is not None  # choose() has said so
    return len(np.unique(data.y))


def _fit(model: Any, data: Dataset, row: str, quiet: bool) -> float:
    """Fit; returns the seconds it took."""
    classes = _classes(data) if row == "c_svc" else 1
    tasks, goal = classes if classes > 2 else 1, (model.tol, model.gap_tol)
    return watched_fit(model, data, Progress("training", tasks=tasks, each="class", quiet=quiet, goal=goal))


def _finish(order: LinearOrder, model: Any, data: Dataset, took: float) -> None:
    """Scores, what there is to say, and files."""
    small = data.X.shape[0] <= order.most_scored
    values = {}
    if small if order.scored is None else order.scored:
        with Progress("scoring", quiet=order.quiet):
            values = score(model, data.X, data.y).values
    if not order.quiet:
        _tell_run(model, took)
        for name, value in values.items():
            fact("score" if name == next(iter(values)) else "", f"{name} {value:.4f} on the training data")
        if order.scored is None and not small:
            fact("score", f"not computed above {order.most_scored:,} samples; --score does")
    _write(order, model, data, took)


def _tell_run(model: Any, took: float) -> None:
    import numpy as np

    names = ("loss", "C", "epsilon")
    settings = [f"{name} {getattr(model, name)}" for name in names if hasattr(model, name)]
    fact("model", f"{type(model).__name__} with {', '.join(settings)}")
    goal = "reached its tolerance" if model.fit_status_ == 0 else "ended short of its tolerance"
    iterations = counted(int(np.max(model.n_iter_)), "iteration")
    fact("solver", f"{model.solver_} {goal} after {iterations} and {seconds(took)}")
    fact("certificate", verdict(model.certificate_), style="green" if model.fit_status_ == 0 else "yellow")
    if not model.certificate_.note:
        fact("", evidence(model.certificate_))
    if len(model.certificates_) > 1:
        gaps = [certificate.relative_gap for certificate in model.certificates_]
        worst = int(np.argmax(gaps))
        fact("", f"worst of the {len(gaps)} classes: {number(model.classes_[worst])}, gap {gaps[worst]:.1e}")


def _gap(model: Any) -> float:
    return float(model.certificate_.relative_gap)


def _write(order: LinearOrder, model: Any, data: Dataset, took: float) -> None:
    from dualgap.formats.model import save
    from dualgap.report import write_page
    from dualgap.report.estimator import summarise

    model.set_params(callback=None)
    if order.output is not None:
        if data.feature_names is not None:
            import numpy as np

            model.feature_names_in_ = np.array(data.feature_names, dtype=object)
        save(model, order.output)
        if not order.quiet:
            fact("saved", f"{order.output} ({size(order.output)})")
    elif not order.quiet:
        fact("saved", "nothing: name a file with -o to keep the model")
    if order.report is not None:
        facts = {"Data": data.source, "Training time": seconds(took)}
        title = f"{type(model).__name__} on {Path(data.source).name}"
        samples: tuple[Any, ...] = () if order.streaming is not None else (data.X, data.y)
        write_page(summarise(model, *samples, title=title, facts=facts), order.report)
        if not order.quiet:
            fact("report", str(order.report))


def params_of(**options: Any) -> dict[str, Any]:
    """Parameters of the estimator that were given; iterations have no limit unless there is one."""
    return {"max_iter": -1, **given(options)}

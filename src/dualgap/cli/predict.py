"""``dualgap predict``: labels or decision values of the samples in a file."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.cli.files import check_output, read_for
from dualgap.cli.output import counted
from dualgap.cli.progress import Progress
from dualgap.cli.scores import compare, number


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What 'dualgap train -o' has written.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="LIBSVM text, csv or npz, with or without labels.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write here, and not to stdout.")
    ] = None,
    decision: Annotated[bool, typer.Option("--decision", help="Values of the decision function, not labels.")] = False,
    label_column: Annotated[
        str, typer.Option(help="Of a csv file: the label's column, by name or by number from 0, or none.")
    ] = "auto",
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a csv file names the columns.",
            show_default="looked at",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of scores.")] = False,
) -> None:
    """Predict the samples of FILE with MODEL, one line a sample; scores go to stderr.

    Example: dualgap predict heart.dualgap new.csv -o labels.txt
    """
    check_output(output, "--output", model, file)
    from dualgap.formats.model import load

    fitted = load(model)
    if decision and not hasattr(fitted, "decision_function"):
        raise ValueError(f"{model}: {type(fitted).__name__} has no decision function; leave --decision out.")
    with Progress(f"reading {file.name}", quiet=quiet):
        data = read_for(fitted, file, label_column, header)
    # The samples are a plain array, whose columns have been compared with the names in the model.
    fitted.__dict__.pop("feature_names_in_", None)
    with Progress(f"predicting {counted(data.X.shape[0], 'sample')}", quiet=quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = None if decision else fitted.predict(data.X)
        values = fitted.decision_function(data.X) if decision else labels
    _write(_lines(values), output)
    if labels is not None and not quiet:
        _tell_scores(fitted, labels, data.y)


def _lines(values: Any) -> str:
    """One line a sample; several values of a sample are separated by blanks."""
    rows = values.reshape(len(values), -1).tolist()
    return "".join(" ".join(number(value) for value in row) + "\n" for row in rows)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from dualgap.atomic import atomic_write

    with atomic_write(output) as file:
        file.write(text.encode("utf-8"))


def _tell_scores(model: Any, labels: Any, y: Any) -> None:
    for name, value in compare(model, labels, y).values.items():
        typer.echo(f"{name} {value:.6g} on {counted(len(labels), 'sample')}", err=True)

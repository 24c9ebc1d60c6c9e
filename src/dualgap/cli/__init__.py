"""The command line: ``demo``, ``train``, ``predict``, ``path``, ``tune``, ``info``, ``solvers``, ``bench``,
``reproduce``, and LIBSVM's ``svm-train`` and ``svm-predict``.

Only what ``--help`` needs is imported here; each command imports the rest when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dualgap import __version__
from dualgap.cli.bench import bench
from dualgap.cli.demo import demo
from dualgap.cli.info import info
from dualgap.cli.libsvm_commands import Verbatim, svm_predict, svm_train
from dualgap.cli.output import UNEXPECTED, USAGE, fail, sentence
from dualgap.cli.path import path
from dualgap.cli.predict import predict
from dualgap.cli.reproduce import reproduce
from dualgap.cli.solvers import solvers
from dualgap.cli.train import train
from dualgap.cli.tune import tune

__all__ = ["app", "main"]

# What shells report for a process ended by Ctrl-C: 128 + SIGINT.
_INTERRUPTED = 130


class _Commands(TyperGroup):
    """Commands whose errors are one line on stderr: 2 for the user's mistakes, 1 for ours, 130 for Ctrl-C."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, "dualgap", complete_var, False, windows_expand_args=windows_expand_args, **extra)
        except Exception as error:
            # What the parser raises has no public base class in common over the versions of typer.
            if not hasattr(error, "format_message"):
                raise
            fail(_usage(error))
            code = USAGE
        if standalone_mode:
            sys.exit(code or 0)
        return code

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("interrupted", prefix="")
            raise typer.Exit(_INTERRUPTED) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("debug") or hasattr(error, "format_message"):
                raise
            code = USAGE if isinstance(error, ValueError | OSError | MemoryError) else UNEXPECTED
            fail(sentence(error))
            raise typer.Exit(code) from None


def _usage(error: Any) -> str:
    """What is wrong with the command line, and where its help is."""
    context = getattr(error, "ctx", None)
    command = "dualgap" if context is None else context.command_path
    # Where typer asks pydantic, the kind of error comes before what is wrong.
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return f"{message}. See '{command} --help'."


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 fine, 2 mistake in the command or the data, 3 trained but short of the tolerance, "
    "130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualgap {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Support vector machines with a proof of how good each solution is."""
    if context.invoked_subcommand is None:
        text = context.get_help()
        # With rich the help is printed while it is made, and nothing is left to print.
        if text:
            typer.echo(text)


app.command()(demo)
app.command()(train)
app.command()(predict)
app.command()(path)
app.command()(tune)
app.command()(info)
app.command()(solvers)
app.add_typer(bench, name="bench")
app.command()(reproduce)
app.command("svm-train", cls=Verbatim)(svm_train)
app.command("svm-predict", cls=Verbatim)(svm_predict)


def main() -> None:
    """Run the command line and leave with its exit status."""
    app(prog_name="dualgap")

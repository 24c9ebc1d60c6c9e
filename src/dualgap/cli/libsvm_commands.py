"""LIBSVM's programs as commands of ours: their command lines are read by themselves, word for word."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

_Words = Annotated[list[str] | None, typer.Argument(metavar="[options] FILES", help="As LIBSVM's program takes them.")]


class Verbatim(TyperCommand):
    """A command that is handed its words as they are: ``-w1 2.5`` and ``-h 0`` mean something else to typer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep all words."""
        ctx.params["words"] = list(args)
        return []


def svm_train(words: _Words = None) -> None:
    """Train as LIBSVM's svm-train does: same options, same model files, and a certificate.

    Example: dualgap svm-train -c 10 -g 0.5 heart_scale heart.model
    """
    from dualgap.cli.svm_train import main

    main(words or [])


def svm_predict(words: _Words = None) -> None:
    """Predict as LIBSVM's svm-predict does: same options, same files.

    Example: dualgap svm-predict heart_scale heart.model labels.txt
    """
    from dualgap.cli.svm_predict import main

    main(words or [])

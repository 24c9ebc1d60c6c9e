"""``dualgap solvers``: what each solver is, what it can be told, and what it can solve."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dualgap.cli.output import standard

if TYPE_CHECKING:
    from types import ModuleType

    from dualgap.kernels.gram import Gram

# Variants of a row: its settings for `dualgap.build`, under the heading of the column.
_VARIANTS: dict[str, dict[str, Any]] = {
    "with bias": {},
    "without bias": {"bias": False},
    "semi-parametric": {"parametric": [lambda X: X[:, 0]]},
}
# Wider text is tiring to read.
_WIDEST = 100


def solvers() -> None:
    """List the solvers, their options, and the formulations each of them takes."""
    from dualgap.solvers import SOLVERS

    console = standard()
    width = min(console.width, _WIDEST) if console.is_terminal else _WIDEST
    for position, (name, module) in enumerate(SOLVERS.items()):
        if position:
            console.print()
        title, _, rest = _hanging(f"{name}  {_first_line(module)}", "  ", width).partition(" ")
        console.print(Text(title, style="bold") + Text(" " + rest), soft_wrap=True)
        console.print(Text(_hanging("  options: " + _options(module), " " * 11, width)), soft_wrap=True)
        console.print()
        table, remarks = _abilities(module)
        console.print(table)
        for number, remark in enumerate(remarks, 1):
            console.print(Text(_hanging(f"  [{number}] {remark}.", " " * 6, width)), soft_wrap=True)


def _hanging(text: str, indent: str, width: int) -> str:
    """The text in lines of at most `width`, all but the first of them indented."""
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def _options(module: ModuleType) -> str:
    # A no-break space would be copied with the text: equal signs without blanks keep each option together.
    return ", ".join(f"{option.name}={option.default!r}" for option in fields(module.Options))


def _abilities(module: ModuleType) -> tuple[Table, list[str]]:
    """A table of formulations and variants, and the sentences its numbers stand for."""
    from dualgap.formulations import FORMULATIONS

    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column("  formulation")
    for heading in _VARIANTS:
        table.add_column(heading)
    remarks: list[str] = []
    for row in FORMULATIONS:
        answers = [_answer(module, row, settings, remarks) for settings in _VARIANTS.values()]
        table.add_row(Text(f"  {row}"), *answers)
    return table, remarks


def _answer(module: ModuleType, row: str, settings: dict[str, Any], remarks: list[str]) -> Text:
    """What the solver says to a small problem: with a general kernel, else with a linear one."""
    reason: str | None = None
    for kernel in ("rbf", "linear"):
        try:
            refusal = module.supports(_problem(row, settings, kernel))
        except ValueError:
            return Text("no such model", style="dim")
        if refusal is None:
            if reason is None:
                return Text("yes", style="green")
            return Text(f"linear kernel only [{_number(reason, remarks)}]", style="yellow")
        reason = reason or refusal
    assert reason is not None
    return Text(f"no [{_number(reason, remarks)}]", style="yellow")


def _number(remark: str, remarks: list[str]) -> int:
    if remark not in remarks:
        remarks.append(remark)
    return remarks.index(remark) + 1


def _problem(row: str, settings: dict[str, Any], kernel: str) -> Any:
    import numpy as np

    from dualgap.formulations import FORMULATIONS, build
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import make_gram

    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    gram: Gram = make_gram(X, Kernel(kernel), kind="cached")
    y = None if FORMULATIONS[row].task == "outlier" else np.array([-1.0, 1.0, -1.0, 1.0])
    return build(row, gram, y, X=X, **settings)

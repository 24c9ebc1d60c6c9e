"""``dualgap bench``: the machines of dualgap beside those of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualgap.bench import REPEAT
from dualgap.cli.bench_all import everything
from dualgap.cli.bench_output import (
    check_outputs,
    print_list,
    print_means,
    print_table,
    run_with_progress,
    tell_files,
    tell_where,
)
from dualgap.cli.output import fact, standard

if TYPE_CHECKING:
    from dualgap.bench.contest import ContestSettings
    from dualgap.bench.results import Report

_GAP, _LIMIT, _CAP, _LEAST = 1e-6, 300.0, 20.0, 2.0
_WHAT, _HOW, _OUTPUT = "What is compared", "How it is run", "Output"


def _names(text: str, *flags: str) -> Any:
    """An option that takes names, as often as it is given."""
    return typer.Option(
        *flags, metavar="NAME", help=f"{text}; may be repeated.", show_default="all", rich_help_panel=_WHAT
    )


# Options that all comparisons have.
_Gap = Annotated[float, typer.Option("--gap", help="Relative gap of the second table.", rich_help_panel=_WHAT)]
_Show = Annotated[bool, typer.Option("--list", help="List the problems and end.", rich_help_panel=_WHAT)]
_Repeat = Annotated[
    int | None,
    typer.Option("--repeat", help="Fits of each; the median counts.", show_default=str(REPEAT), rich_help_panel=_HOW),
]
_Cap = Annotated[
    float,
    typer.Option(
        "--cap", help="At equal gaps a peer's fit is ended after so many times dualgap's time.", rich_help_panel=_HOW
    ),
]
_Least = Annotated[
    float,
    typer.Option("--least", help="Seconds that a peer's fit always gets, whatever the cap.", rich_help_panel=_HOW),
]
_Limit = Annotated[float, typer.Option("--limit", help="Seconds after which a fit is ended.", rich_help_panel=_HOW)]
_Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Keep everything here, after each problem.", rich_help_panel=_OUTPUT),
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Run only what the file of --json lacks.", rich_help_panel=_OUTPUT)
]
_Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE.png", help="Draw gap against time; .svg and .pdf as well.", rich_help_panel=_OUTPUT
    ),
]

bench = typer.Typer(
    help="Compare dualgap with other libraries, at equal certified quality.",
    rich_markup_mode="rich",
    add_completion=False,
)


@bench.callback()
def _bench() -> None:
    """Make every comparison a command of its own."""


bench.command("all")(everything)


@bench.command()
def kernel(
    problem: Annotated[list[str] | None, _names("A problem that --list shows", "--problem", "-p")] = None,
    peer: Annotated[list[str] | None, _names("scikit-learn, intelex or libsvm")] = None,
    gap: _Gap = _GAP,
    show: _Show = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One fit of each, and no second table.", rich_help_panel=_HOW)
    ] = False,
    repeat: _Repeat = None,
    cache_size: Annotated[
        float, typer.Option(help="Megabytes for kernel values, the same for all.", rich_help_panel=_HOW)
    ] = 4000.0,
    limit: _Limit = _LIMIT,
    cap: _Cap = _CAP,
    least: _Least = _LEAST,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Measure dualgap's peak memory, by a fit more of each.", rich_help_panel=_HOW),
    ] = False,
    json: _Json = None,
    resume: _Resume = False,
    plot: _Plot = None,
) -> None:
    """Time dualgap and its peers on kernel problems; the gap of every solution is certified by dualgap.

    Peers run at their default tolerance and dualgap at the gap each of them reached; then all at the gap of --gap.
    The data sets are those in the folder that DUALGAP_DATA names.

    Example: dualgap bench kernel --quick -p cpusmall -p letter_c10 --json bench.json --plot bench.png
    """
    from dualgap.bench.kernel import Settings, run_all
    from dualgap.bench.libraries import select_peers
    from dualgap.bench.machine import available_cores
    from dualgap.bench.problems import PROBLEMS, select

    if show:
        print_list(
            ("problem", "data", "machine"),
            [(one.name, one.file or _BUNDLED, one.title() + _only_if_named(one.usual)) for one in PROBLEMS.values()],
        )
        return
    problems = select(problem or [])
    settings = Settings(
        cache_size=cache_size,
        repeat=repeat if repeat is not None else 1 if quick else REPEAT,
        gap=gap,
        limit=limit,
        cap=cap,
        least=least,
        memory=memory,
        threads=available_cores(),
        peers=select_peers(peer or []),
    )
    report = _compare("kernel", run_all, problems, settings, quick, json, resume, plot)
    tell_kernel(report)
    tell_files(report, json, plot)


@bench.command()
def linear(
    problem: Annotated[
        list[str] | None,
        _names("A problem that --list shows, or a data set for all of its problems", "--problem", "-p"),
    ] = None,
    peer: Annotated[list[str] | None, _names("scikit-learn, liblinear, sgd, skglm, snapml or snapml-threads")] = None,
    gap: _Gap = _GAP,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="An intercept, penalised as LIBLINEAR's is.", rich_help_panel=_WHAT)
    ] = False,
    show: _Show = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="One fit of each, no second table, the generated set small.", rich_help_panel=_HOW
        ),
    ] = False,
    repeat: _Repeat = None,
    limit: _Limit = _LIMIT,
    cap: _Cap = _CAP,
    least: _Least = _LEAST,
    seeds: Annotated[
        int,
        typer.Option(
            metavar="K", help="Times over K seeds, of news20, reuters and mnist, hinge, C=10.", rich_help_panel=_HOW
        ),
    ] = 0,
    json: _Json = None,
    resume: _Resume = False,
    plot: _Plot = None,
) -> None:
    """Time dualgap and its peers on linear problems; everybody's weights are measured by a certified dual value.

    Peers run at their default tolerance and dualgap at the accuracy each of them reached; then all at the gap of
    --gap. The data sets are those in the folder that DUALGAP_DATA names, and one that is generated.

    Example: dualgap bench linear --quick -p a9a -p reuters_hinge_C10 --json bench.json --plot bench.png
    """
    from dualgap.bench.linear import LinearSettings, run_all
    from dualgap.bench.linear_libraries import select_peers
    from dualgap.bench.linear_problems import PROBLEMS, select
    from dualgap.bench.machine import available_cores

    if show:
        print_list(
            ("problem", "data", "machine"),
            [(one.name, one.data, one.title(intercept) + _only_if_named(one.usual)) for one in PROBLEMS.values()],
        )
        return
    problems = select(problem or [])
    settings = LinearSettings(
        repeat=repeat if repeat is not None else 1 if quick else REPEAT,
        gap=gap,
        limit=limit,
        cap=cap,
        least=least,
        threads=available_cores(),
        peers=select_peers(peer or []),
        intercept=intercept,
        seeds=seeds,
        quick=quick,
    )
    report = _compare("linear", run_all, problems, settings, quick, json, resume, plot)
    tell_linear(report)
    tell_files(report, json, plot)


@bench.command()
def l1(
    problem: Annotated[list[str] | None, _names("A data set that --list shows", "--problem", "-p")] = None,
    loss: Annotated[list[str] | None, _names("hinge or squared_hinge")] = None,
    C: Annotated[float, typer.Option("-C", help="Weight of the losses.", rich_help_panel=_WHAT)] = 1.0,
    error: Annotated[float, typer.Option("--gap", help="Relative error to reach.", rich_help_panel=_WHAT)] = _GAP,
    show: _Show = False,
    repeat: _Repeat = None,
    limit: _Limit = _LIMIT,
    cap: Annotated[
        float,
        typer.Option(help="Peers are ended after so many times dualgap's time (10 s at least).", rich_help_panel=_HOW),
    ] = _CAP,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Keep everything here.", rich_help_panel=_OUTPUT)
    ] = None,
) -> None:
    """Time dualgap and its peers on L1-SVMs; everybody's weights are judged by the same certified lower bound.

    The hinge is compared with the whole linear program (HiGHS, by SciPy), the squared hinge with LIBLINEAR's solver 5
    (scikit-learn's, and its own package) and skglm, each with one thread. The data sets are those in the folder that
    DUALGAP_DATA names.

    Example: dualgap bench l1 -p dexter -p internet_ads --repeat 1 --limit 60
    """
    from dualgap.bench.l1 import LOSSES, SETS, USUAL, L1Settings, compare
    from dualgap.bench.packages import chosen
    from dualgap.bench.problems import check_files
    from dualgap.cli.bench_l1 import tell_l1
    from dualgap.cli.files import check_output
    from dualgap.cli.progress import Progress

    if show:
        print_list(("data", "features"), [(one, "scaled to a largest value of 1") for one in SETS])
        return
    names = chosen(problem or list(USUAL), SETS, "data set")
    losses = chosen(loss or [], LOSSES, "loss")
    settings = L1Settings(C, error, REPEAT if repeat is None else repeat, limit, cap)
    check_output(json, "--json")
    check_files("" if name == "breast_cancer" else name for name in names)
    with Progress("starting") as progress:
        results = [
            compare(name, one, settings, lambda step: setattr(progress, "work", step))
            for one in losses
            for name in names
        ]
    tell_l1(results, json)


def _compare(
    kind: str,
    run_all: Callable[..., Report],
    problems: Sequence[Any],
    settings: ContestSettings,
    quick: bool,
    json: Path | None,
    resume: bool,
    plot: Path | None,
) -> Report:
    """Check everything that was asked for, then run the comparison."""
    from dualgap.bench.machine import describe_machine, describe_versions
    from dualgap.bench.problems import check_files
    from dualgap.bench.results import Report

    settings.check()
    settings = replace(settings, gap=None) if quick else settings
    check_outputs(json, resume, plot)
    check_files(one.file for one in problems)
    report = Report(describe_machine(), describe_versions(kind), asdict(settings), kind=kind)
    return run_with_progress(partial(run_all, problems, report, settings), json, resume)


_BUNDLED = "bundled with scikit-learn"


def _only_if_named(usual: bool) -> str:
    return "" if usual else " (only if named)"


def tell_kernel(report: Report) -> None:
    """Machine, tables and means of kernel machines."""
    from dualgap.bench.tables import Footnotes, comparison_table, means, memory_table, problem_table, thread_line

    settings, notes = report.settings, Footnotes()
    tell_where(report, thread_line(report), f", cache {settings['cache_size']:g} MB")
    print_table(problem_table(report.problems))
    for side, (label, sentence) in _sides(settings["gap"], "at the gap each of them reached").items():
        fact(label, sentence)
        print_table(comparison_table(report.problems, side, notes))
        for mean_label, extra in (("mean ratio", False), ("others", True)):
            print_means(mean_label, means([one for one in report.problems if one.extra == extra], side))
        standard().print()
    memory = memory_table(report.problems)
    if memory is not None:
        fact("memory", "the most that a process held in a fit, samples and code included")
        print_table(memory)
    for line in notes.lines():
        fact("", line)
    fact("note", KERNEL_NOTE)


def tell_linear(report: Report) -> None:
    """Machine, tables, means and the spread over seeds of linear machines."""
    from dualgap.bench.linear_tables import problem_table, reached, spread_table, thread_line
    from dualgap.bench.tables import Footnotes, comparison_table, means

    settings, notes = report.settings, Footnotes()
    tell_where(report, thread_line(report), "")
    print_table(problem_table(report.problems))
    for side, (label, sentence) in _sides(settings["gap"], "at the accuracy each of them reached").items():
        fact(label, sentence)
        common = side == "tight"
        print_table(comparison_table(report.problems, side, notes, best=common))
        print_means("mean ratio", means(report.problems, side, settings["peers"], best=common))
        if common:
            fact("reached", ", ".join(reached(report.problems, settings["peers"])))
        standard().print()
    spread = spread_table(report.problems, notes)
    if spread is not None:
        fact("seeds", f"time to relative gap {settings['gap']:g} from {settings['seeds']} seeds")
        print_table(spread)
    for line in notes.lines():
        fact("", line)
    fact("note", LINEAR_NOTE)


def _sides(gap: float | None, ours: str) -> dict[str, tuple[str, str]]:
    """The tables there are, each with a label and a sentence."""
    sides = {"default": ("default", f"peers at their default tolerance, dualgap {ours}")}
    if gap is not None:
        sides["tight"] = ("equal gap", f"relative gap {gap:g}: peers at the loosest tolerance that reaches it")
    return sides


KERNEL_NOTE = (
    "Ratio: the peer's time over dualgap's, > where its fits were ended at the cap; * marks the fastest peer of the "
    "same input. Gaps are relative duality "
    "gaps of the samples as given, computed by dualgap.certify from everybody's dual variables after the clock has "
    "stopped. Warm-up (compiling, loading, a small fit) and LIBSVM's conversion of the data are not timed. Floor: the "
    "time for the kernel values between samples and support vectors. Memory: what a fit needs beyond the data."
)
LINEAR_NOTE = (
    "Ratio: the peer's time over dualgap's, > where its fits were ended at the cap; * marks the fastest peer. Gaps "
    "bound the relative suboptimality of "
    "everybody's weights w: (P(w) - D) / P(w), where P is the primal objective and D the certified dual objective of "
    "the reference, a run of dualgap to 1e-9. Certified: dualgap's own duality gap, which is what it was asked for. "
    "Warm-up (compiling, loading, a small fit) and LIBLINEAR's conversion of the data are not timed; scikit-learn's is."
)

"""``dualgap bench all``: every comparison with other libraries, on one page and in one summary."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualgap.bench import REPEAT
from dualgap.cli.bench_output import print_means, print_table, run_with_progress
from dualgap.cli.output import fact

if TYPE_CHECKING:
    from dualgap.bench.contest import ContestSettings
    from dualgap.bench.page import Chapter
    from dualgap.bench.results import Report

# The kinds in the order they are run, and the share of the time after which no problem of a kind is begun.
_SHARES = {"kernel": 0.35, "linear": 0.85, "l1": 1.0}
_GAP, _SEEDS = 1e-6, 5
# Seconds after which a fit is ended, and seconds that a peer's fit gets at the common gap whatever the cap. LIBLINEAR
# takes some 160 s for its thousand passes over covtype, which is what its default tolerance costs there, and LIBSVM
# some 190 s for 50 000 rows of it; and that LIBLINEAR does not get to a gap, which dualgap reaches in a tenth of a
# second, is better seen after half a minute than after two seconds. Kernel machines take longer all over: beside them
# so much patience would cost hours.
_LIMIT = {"kernel": 240.0, "linear": 200.0}
_LEAST = {"kernel": 2.0, "linear": 30.0}
# A peer's fit is ended after so many times our time, and repeated only where it takes less than so many seconds: all of
# it is to be over within an hour and a half.
_CAP, _BRIEF = 10.0, 5.0
# Of linear machines only LIBLINEAR, by both of its doors; ``dualgap bench linear`` has more peers.
_LINEAR_PEERS = ("scikit-learn", "liblinear")
# Of L1 machines a peer has so many seconds for all its tolerances.
_L1_LIMIT, _L1_LIMIT_QUICK = 60.0, 10.0


def everything(
    problem: Annotated[
        list[str] | None,
        typer.Option("--problem", "-p", metavar="NAME", help="A problem that bench kernel or linear lists."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One fit of each, and no table at equal gaps.")] = False,
    budget: Annotated[
        float, typer.Option("--budget", metavar="MINUTES", help="No problem is begun after so many minutes.")
    ] = 90.0,
    cap: Annotated[
        float, typer.Option("--cap", help="At equal gaps a peer's fit is ended after so many times dualgap's time.")
    ] = _CAP,
    output: Annotated[
        Path | None,
        typer.Option("--output", "--out", "-o", metavar="DIR", help="Write JSON, SVG and one HTML page here."),
    ] = None,
    go_on: Annotated[
        bool, typer.Option("--continue", "--resume", help="Run only what the files in --output lack.")
    ] = False,
) -> None:
    """Run all comparisons with other libraries: kernel machines, linear ones, and L1 machines.

    Every finished problem is kept at once, in a file for each kind of machine; bench.json has the summary that
    the README shows. Problems that the time is too short for are named there, and --continue runs them.

    Example: dualgap bench all --quick -p cpusmall -p reuters --output results
    """
    if not budget > 0:
        raise ValueError(f"--budget {budget:g}: must be positive.")
    if go_on and output is None:
        raise ValueError("--continue needs the folder to go on with; name it with --output.")
    chosen = _choose(problem or [])
    settings = {kind: _settings(kind, quick, cap) for kind in chosen}
    _check(chosen, settings, output, go_on)
    began, reports = time.monotonic(), {}
    for kind, problems in chosen.items():
        share = _SHARES[kind] if len(chosen) > 1 else 1.0
        reports[kind] = _run(kind, problems, settings[kind], began + 60.0 * share * budget, output, go_on)
        _tell(kind, reports[kind])
        if output is not None:
            _save(reports, kind, output)
    if output is not None:
        from dualgap.bench.summary import PAGE

        fact("page", str(output / PAGE))


def _choose(names: list[str]) -> dict[str, Sequence[Any]]:
    """The problems of each kind; all usual ones of all kinds where none are named."""
    from dualgap.bench import l1_series, linear_problems, problems

    sets = {one.data for one in linear_problems.PROBLEMS.values()}
    known: dict[str, Any] = {
        "kernel": set(problems.PROBLEMS),
        "linear": sets | set(linear_problems.PROBLEMS),
        "l1": set(l1_series.known()),
    }
    for name in names:
        if not any(name in one for one in known.values()):
            raise ValueError(
                f"there is no problem {name!r}; 'dualgap bench kernel --list' and 'linear --list' name all."
            )
    select: dict[str, Callable[[list[str]], Sequence[Any]]] = {
        "kernel": problems.select,
        "linear": linear_problems.select,
        "l1": l1_series.select,
    }
    mine = {kind: [name for name in names if name in known[kind]] for kind in known}
    found = {kind: select[kind](mine[kind]) for kind in known if mine[kind] or not names}
    return {kind: chosen for kind, chosen in found.items() if chosen}


def _settings(kind: str, quick: bool, cap: float) -> ContestSettings:
    from dualgap.bench.contest import ContestSettings
    from dualgap.bench.kernel import Settings
    from dualgap.bench.linear import LinearSettings
    from dualgap.bench.machine import available_cores

    common: dict[str, Any] = {
        "repeat": 1 if quick else REPEAT,
        "gap": None if quick else _GAP,
        "cap": cap,
        "brief": _BRIEF,
        "threads": available_cores(),
    }
    if kind != "l1":
        common |= {"limit": _LIMIT[kind], "least": _LEAST[kind]}
    if kind == "kernel":
        return Settings(**common, memory=not quick)
    if kind == "l1":
        limit = _L1_LIMIT_QUICK if quick else _L1_LIMIT
        return ContestSettings(repeat=common["repeat"], gap=_GAP, limit=limit, cap=None)
    return LinearSettings(**common, peers=_LINEAR_PEERS, seeds=0 if quick else _SEEDS, quick=quick)


def _check(
    chosen: dict[str, Sequence[Any]], settings: dict[str, ContestSettings], output: Path | None, go_on: bool
) -> None:
    """Find out, before any work is done, whether data and files are as they have to be."""
    from dualgap.bench.problems import check_files
    from dualgap.bench.summary import file_of

    for kind, problems in chosen.items():
        replace(settings[kind], gap=settings[kind].gap or _GAP).check()
        check_files(one.file for one in problems)
        if output is not None and (output / file_of(kind)).exists() and not go_on:
            raise ValueError(f"{output / file_of(kind)}: exists; add --continue to go on with it, or remove it.")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)


def _run(
    kind: str, problems: Sequence[Any], settings: ContestSettings, deadline: float, output: Path | None, go_on: bool
) -> Report:
    from dualgap.bench import kernel, l1_series, linear
    from dualgap.bench.machine import describe_machine, describe_versions
    from dualgap.bench.results import Report
    from dualgap.bench.summary import file_of

    runners: dict[str, Callable[..., Report]] = {
        "kernel": kernel.run_all,
        "linear": linear.run_all,
        "l1": l1_series.run_all,
    }
    report = Report(describe_machine(), describe_versions(kind), asdict(settings), kind=kind)
    file = None if output is None else output / file_of(kind)
    return run_with_progress(partial(runners[kind], problems, report, settings, deadline=deadline), file, go_on)


def _tell(kind: str, report: Report) -> None:
    from dualgap.bench.summary import TITLES
    from dualgap.cli.bench import tell_kernel, tell_linear

    fact("comparison", TITLES[kind])
    {"kernel": tell_kernel, "linear": tell_linear, "l1": _tell_l1}[kind](report)
    if report.left_out:
        fact("left out", f"for lack of time: {', '.join(report.left_out)}")


def _tell_l1(report: Report) -> None:
    """The table and means of L1 machines."""
    from dualgap.bench.tables import Footnotes, comparison_table, means

    notes, peers = Footnotes(), ("highs", "liblinear")
    print_table(comparison_table(report.problems, "tight", notes, best=False))
    print_means("mean ratio", means(report.problems, "tight", peers, best=False))
    for line in notes.lines():
        fact("", line)
    fact("note", _L1_NOTE)


_L1_NOTE = (
    "Processor seconds of a fit with one thread. Ratio: the peer's time over dualgap's, > where it was not there in "
    "its time. Gaps: how far the objective of the weights is above the best certified lower bound, relatively."
)


def _save(reports: dict[str, Report], latest: str, output: Path) -> None:
    """Picture, page, summary and contents of the folder; what the folder has of other kinds stays in all of them."""
    from dualgap.atomic import atomic_write
    from dualgap.bench.page import render
    from dualgap.bench.results import read_report
    from dualgap.bench.summary import PAGE, SUMMARY, file_of, section, summarise, write_summary
    from dualgap.reproduce import store
    from dualgap.reproduce.experiments import LIMITS

    kept = {
        kind: reports[kind] if kind in reports else read_report(output / file_of(kind), kind)
        for kind in _SHARES
        if kind in reports or (output / file_of(kind)).exists()
    }
    chapters = []
    for kind, report in kept.items():
        path = output / f"bench-{kind}.svg"
        known = kind != latest and path.exists()
        picture = path.read_text(encoding="utf-8") if known else _draw(report, path)
        chapters.append(_chapter(kind, report, picture))
    summary = summarise(kept)
    write_summary(summary, output / SUMMARY)
    with atomic_write(output / PAGE) as file:
        file.write(render(summary, chapters).encode("utf-8"))
    store.save_index(output, LIMITS, section(output))


def _draw(report: Report, path: Path) -> str:
    """The picture, drawn into a file; nothing where there is no matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return ""
    from dualgap.bench.plot import save_plot

    save_plot(report, path)
    return path.read_text(encoding="utf-8")


def _chapter(kind: str, report: Report, picture: str) -> Chapter:
    from dualgap.bench import linear_tables, tables
    from dualgap.bench.page import Chapter, facts_of
    from dualgap.bench.summary import TITLES
    from dualgap.cli.bench import KERNEL_NOTE, LINEAR_NOTE

    notes, found = tables.Footnotes(), list[tuple[str, Any]]()
    if kind != "l1":
        problem_table = tables.problem_table if kind == "kernel" else linear_tables.problem_table
        default = tables.comparison_table(report.problems, "default", notes, best=kind == "kernel")
        found += [("Problems", problem_table(report.problems)), ("Default tolerance", default)]
    if report.settings["gap"] is not None:
        title = f"Relative gap {report.settings['gap']:g}"
        found.append((title, tables.comparison_table(report.problems, "tight", notes, best=kind != "l1")))
    memory = tables.memory_table(report.problems) if kind == "kernel" else None
    spread = linear_tables.spread_table(report.problems, notes) if kind == "linear" else None
    found += [(title, table) for title, table in (("Memory", memory), ("Seeds", spread)) if table is not None]
    lines = [*notes.lines(), {"kernel": KERNEL_NOTE, "linear": LINEAR_NOTE, "l1": _L1_NOTE}[kind]]
    return Chapter(TITLES[kind], facts_of(report), found, lines, picture)

"""The comparison of kernel machines: every peer on every problem, and dualgap at the gap that the peer reached.

How the fits follow each other is said in `dualgap.bench.contest`; here are the samples in both precisions, the
judges, and what is measured beside time and gap.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench import series
from dualgap.bench.contest import Contest, ContestSettings
from dualgap.bench.floor import entry_nanoseconds, floor, product_nanoseconds
from dualgap.bench.libraries import LIBRARIES, PEERS, Assignment
from dualgap.bench.packages import OURS
from dualgap.bench.problems import read_problem
from dualgap.bench.results import ProblemResult, Runs
from dualgap.bench.samples import write_samples
from dualgap.bench.scoring import Judge
from dualgap.bench.worker import OverLimitError, Worker, WorkerError

if TYPE_CHECKING:
    from dualgap.bench.problems import Machine, Problem
    from dualgap.bench.results import Report

# What all peers stop at unless told otherwise.
DEFAULT_TOL = 1e-3
_PRECISIONS = ("float64", "float32")


@dataclass(frozen=True)
class Settings(ContestSettings):
    """How the comparison is run.

    Attributes
    ----------
    cache_size : float
        Megabytes for kernel values, the same for all.
    memory : bool
        Whether to measure dualgap's peak memory in processes of their own.
    """

    peers: tuple[str, ...] = PEERS
    cache_size: float = 4000.0
    memory: bool = False

    def _positive(self) -> dict[str, float]:
        return {**super()._positive(), "--cache-size": self.cache_size}


def run_all(problems: list[Problem], report: Report, settings: Settings, **how: Any) -> Report:
    """Run problems one after the other; see `series.run_all`."""
    return series.run_all(problems, report, lambda problem, tell: run_problem(problem, settings, tell=tell), **how)


def run_problem(
    problem: Problem,
    settings: Settings,
    *,
    tell: Callable[[str], None] = lambda step: None,
    launch: Callable[[Assignment], Any] = Worker,
) -> ProblemResult:
    """Run one problem: the peers at their default tolerance, then everybody at a common gap."""
    tell("reading the data")
    X, y = read_problem(problem)
    if problem.cache_size is not None:
        settings = replace(settings, cache_size=problem.cache_size, memory=True)
    machine = problem.machine(*X.shape)
    result = ProblemResult(
        problem.name, problem.title(), X.shape[0], X.shape[1], extra=problem.extra, remark=problem.remark
    )
    # Each solution is judged on the samples its library was given: rounded ones are another problem.
    judges = {p: Judge(X.astype(p).astype(np.float64, copy=False), y, machine) for p in _PRECISIONS}
    with tempfile.TemporaryDirectory(prefix="dualgap_bench_") as folder:
        write_samples(Path(folder), X, y, _PRECISIONS)
        assign = partial(_assignment, machine, Path(folder), settings)
        with Contest(settings, judges, assign, {"tol": DEFAULT_TOL}, tell=tell, launch=launch) as contest:
            for precision in _PRECISIONS:
                found = contest.at_default(_rivals(settings, machine, precision))
                result.default += found
                if settings.gap is not None and found:
                    result.tight += contest.at_gap(settings.gap, found)
            result.warm_up, result.history = contest.warm_up, contest.history
            if settings.memory:
                result.memory = _memory(contest, result)
        headline = result.headline()
        if headline is not None:
            tell("measuring what a kernel value costs")
            result.entry_nanoseconds = entry_nanoseconds(X, machine.gamma)
            result.product_nanoseconds = product_nanoseconds(X)
            result.floor = floor(headline.entries, result.entry_nanoseconds)
    return result


def _assignment(machine: Machine, folder: Path, settings: Settings, library: str, precision: str) -> Assignment:
    return Assignment(library, precision, machine, folder, settings.cache_size, settings.threads)


def _rivals(settings: Settings, machine: Machine, precision: str) -> list[Runs]:
    """The peers for samples of this precision, those that cannot take part with the reason."""
    rivals = []
    for name in settings.peers:
        if precision in LIBRARIES[name].precisions:
            reason = LIBRARIES[name].absence(machine.row)
            rivals.append(Runs(name, precision, {} if reason else {"tol": DEFAULT_TOL}, reason=reason))
    return rivals


def _memory(contest: Contest, result: ProblemResult) -> dict[str, int]:
    """Bytes that a fresh process grows by in the headline's fit, by precision."""
    grown: dict[str, int] = {}
    for precision in _PRECISIONS:
        runs = result.headline(precision)
        if runs is None or runs.reason:
            continue
        contest.tell(f"measuring memory, {precision}")
        # The others would not disturb, but their data is better not held meanwhile.
        worker = contest.launch(contest.assign(OURS, precision))
        try:
            answer = worker.fit(runs.goal, contest.settings.limit)
            if answer.grown is not None:
                grown[precision] = answer.grown
        except (OverLimitError, WorkerError) as error:
            contest.tell(f"no memory figure for {precision}: {error}")
        finally:
            worker.close()
    return grown

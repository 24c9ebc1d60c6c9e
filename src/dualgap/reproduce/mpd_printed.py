"""The paper's MPD on the clock, without the watcher that `run.solve` puts beside every solver.

The printed method moves its multipliers thousands of times, and the watcher finds the best duality gap after each: on
small problems that takes longer than the method itself. Here only the solver is timed, and certified once at the end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dualgap.certificate import certify
from dualgap.result import History, Result, Status
from dualgap.solvers import mpd

if TYPE_CHECKING:
    from dualgap.problem import DualQP
    from dualgap.result import Snapshot


def solve_as_printed(problem: DualQP, tol: float, limit: float) -> Result:
    """Solve to both of the paper's thresholds `tol`, for at most `limit` seconds."""
    began = time.perf_counter()
    evaluations = 0

    def watch(snapshot: Snapshot) -> bool:
        nonlocal evaluations
        evaluations = snapshot.kernel_evaluations
        return time.perf_counter() - began > limit

    outcome = mpd.solve(problem, mpd.Options(tol=tol, variant="paper"), watch)
    seconds = time.perf_counter() - began
    certificate, eta = certify(problem, outcome.a)
    status = Status.TIME_LIMIT if outcome.status is Status.STOPPED else outcome.status
    return Result(outcome.a, eta, certificate, History(), status, "mpd", outcome.iterations, evaluations, seconds)

"""``dualgap bench l1``: L1-SVMs beside the whole linear program (HiGHS), LIBLINEAR and skglm.

    hinge           min |w|_1 + C sum max(0, 1 - y f)        free bias        the program over all rows and columns
    squared_hinge   min |w|_1 + C sum max(0, 1 - y f)^2      penalised bias   coordinate descent

The libraries are those of `l1_libraries`. Features are scaled to a largest value of 1. Each library has a process of
its own with one thread, and its fits follow those of dualgap; wall and processor time are taken of the fit alone.
Everybody's weights are judged by `certify_composite` on the same problem: the error of weights w is
``(P(w) - D) / P(w)``, D being the largest certified lower bound. Tolerances of others bound no such error, so they run
at smaller and smaller ones, and the first that reaches the goal counts.

A peer is ended after `cap` times dualgap's time, or after the limit; where none gets there the ratio is a lower bound.
The peer that is compared with is the fastest of those that get there.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench import REPEAT
from dualgap.bench.l1_libraries import bias_of, installed, ready
from dualgap.bench.packages import OURS, Fit
from dualgap.bench.preparation import breast_cancer, read_file, signs
from dualgap.bench.worker import OverLimitError, Worker, WorkerError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.l1_libraries import Ready
    from dualgap.bench.packages import Goal

LOSSES = ("hinge", "squared_hinge")
USUAL = ("arcene", "dexter", "dorothea", "madelon", "internet_ads", "a9a", "news20", "reuters")
SETS = (*USUAL, "breast_cancer")
# Tolerances that peers are run at, in this order; HiGHS knows one.
_TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# Samples with more nonzeros than this share are dense to everybody.
_DENSE = 0.4
# File in which a process says how much processor time it had used when its last fit began.
_BEGAN = "began"
# A peer always gets so many seconds; fits that take longer than the second number are not repeated.
_LEAST_LIMIT, _LONG = 10.0, 5.0
# Rows of the warm-up, and what it is to reach; rounds of those who might not end there.
_WARM_ROWS = 200
_WARM_UP = {"tol": 1e-2, "rounds": 2}


@dataclass(frozen=True)
class L1Settings:
    """How the comparison is run: C, the error to reach, fits of each, seconds at most and times dualgap's at most."""

    C: float = 1.0
    error: float = 1e-6
    repeat: int = REPEAT
    limit: float = 300.0
    cap: float = 20.0

    def __post_init__(self) -> None:
        for name in ("C", "error", "repeat", "limit", "cap"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)!r}.")

    def for_peers(self, ours: L1Run) -> L1Settings:
        """The same with the limit that a peer has."""
        if math.isnan(ours.wall):
            return self
        return replace(self, limit=min(self.limit, max(self.cap * ours.wall, _LEAST_LIMIT)))


@dataclass(frozen=True)
class L1Run:
    """What one library did on one problem.

    Attributes
    ----------
    library : str
        "dualgap", or one of `l1_libraries.PEERS`.
    wall, cpu : float
        Seconds of a fit, the median; where it was ended, until then.
    objective, error : float
        Certified objective of its weights, and their relative error against the best lower bound.
    features : int
        Weights that are not zero.
    tol : float or None
        Its tolerance, where it has one that was chosen.
    note : str
        Why there is no answer, or why it is not good enough.
    """

    library: str
    wall: float
    cpu: float
    objective: float = math.nan
    error: float = math.nan
    features: int = 0
    tol: float | None = None
    note: str = ""


@dataclass(frozen=True)
class L1Compared:
    """All libraries on one problem; `peer` is the best of the others, `ratio` its processor time over dualgap's."""

    data: str
    loss: str
    rows: int
    columns: int
    bound: float
    ours: L1Run
    peer: L1Run
    settings: L1Settings
    others: tuple[L1Run, ...] = ()

    @property
    def reached(self) -> bool:
        """Whether the peer's error is as small as was asked for; the ratio is a lower bound where it is not."""
        return self.peer.error <= self.settings.error

    @property
    def ratio(self) -> float:
        """The peer's processor time over dualgap's."""
        return self.peer.cpu / self.ours.cpu

    def run_of(self, library: str) -> L1Run | None:
        """What this peer did, if it took part."""
        return next((run for run in (self.peer, *self.others) if run.library == library), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for JSON."""
        return {**asdict(self), "ratio": self.ratio, "reached": self.reached}


def read_l1(name: str) -> tuple[Any, NDArray[np.float64]]:
    """Samples and labels of a set, features scaled to a largest value of 1; dense where most entries are not zero."""
    import scipy.sparse as sp

    if name == "breast_cancer":
        return breast_cancer()
    X, y = read_file(name)
    X = sp.csr_matrix(X, dtype=np.float64)
    largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
    X = sp.csr_matrix(X @ sp.diags(1.0 / np.where(largest > 0.0, largest, 1.0)))
    dense = X.nnz > _DENSE * X.shape[0] * X.shape[1]
    # news20 has twenty classes: one against the rest.
    return X.toarray() if dense else X, y if name != "news20" else signs(y == 1)


@dataclass(frozen=True)
class _Task:
    """Who solves what, for a process of its own."""

    library: str
    loss: str
    C: float
    folder: Path
    limit: float
    threads: int = 1

    def start(self) -> tuple[Callable[[Goal], Fit], float]:
        """Read the samples and warm up."""
        X, y = _load(self.folder)
        began = time.perf_counter()
        few = np.unique(np.concatenate([np.flatnonzero(y == label)[: _WARM_ROWS // 2] for label in (-1.0, 1.0)]))
        ready(self.library, X[few], y[few], self.loss, self.C, self.limit)(_WARM_UP)
        took = time.perf_counter() - began
        solve = ready(self.library, X, y, self.loss, self.C, self.limit)
        return lambda goal: self._fit(solve, goal), took

    def _fit(self, solve: Ready, goal: Goal) -> Fit:
        def run() -> Any:
            began = time.process_time()
            (self.folder / _BEGAN).write_text(repr(began))  # for the parent, should it have to end this fit
            answer = solve(goal)
            return (*answer, time.process_time() - began)

        return Fit(run, lambda answer: answer)


def _save(folder: Path, X: Any, y: NDArray[np.float64]) -> None:
    import scipy.sparse as sp

    np.save(folder / "y.npy", y)
    if sp.issparse(X):
        sp.save_npz(folder / "X.npz", X, compressed=False)
    else:
        np.save(folder / "X.npy", X)


def _load(folder: Path) -> tuple[Any, NDArray[np.float64]]:
    import scipy.sparse as sp

    sparse = (folder / "X.npz").exists()
    return sp.load_npz(folder / "X.npz") if sparse else np.load(folder / "X.npy"), np.load(folder / "y.npy")


def compare(name: str, loss: str, settings: L1Settings, tell: Callable[[str], None] = lambda step: None) -> L1Compared:
    """Run dualgap and its peers on one problem, one after the other.

    Parameters
    ----------
    name : str
        One of `SETS`.
    loss : {"hinge", "squared_hinge"}
        The loss.
    settings : L1Settings
        How.
    tell : callable
        Called with what is being done.
    """
    X, y = read_l1(name)
    judge = _Judge(X, y, loss, settings.C)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _save(folder, X, y)
        tell(f"{name}, {loss}: dualgap")
        ours = _measure(OURS, (settings.error,), loss, settings, folder, judge)
        theirs = []
        for peer in installed(loss):
            tell(f"{name}, {loss}: {peer}")
            tolerances = (0.0,) if peer == "highs" else _TOLERANCES
            theirs.append(_measure(peer, tolerances, loss, settings.for_peers(ours), folder, judge))
    best, *others = sorted(map(judge.final, theirs), key=lambda run: _rank(run, settings.error))
    rows, columns = X.shape
    return L1Compared(name, loss, rows, columns, judge.bound, judge.final(ours), best, settings, tuple(others))


def _rank(run: L1Run, error: float) -> tuple[bool, bool, float]:
    """The fastest of those that get there first; of the others, that whose time bounds least."""
    return not run.error <= error, math.isnan(run.cpu), run.cpu


class _Judge:
    """Certified objectives, and the best lower bound of all."""

    def __init__(self, X: Any, y: NDArray[np.float64], loss: str, C: float) -> None:
        from dualgap.l1svm import l1_problem

        self.problem, self.y, self.bound = l1_problem(X, y, C, loss=loss, bias=bias_of(loss)), y, -math.inf

    def objective(self, x: NDArray[np.float64], a: NDArray[np.float64] | None) -> float:
        from dualgap.composite_certificate import certify_composite

        certificate, _ = certify_composite(self.problem, x, None if a is None else -self.y * a)
        self.bound = max(self.bound, certificate.dual)
        return certificate.primal

    def error(self, objective: float) -> float:
        return max(objective - self.bound, 0.0) / abs(objective)

    def final(self, run: L1Run) -> L1Run:
        """The run with its error against the best bound there is in the end."""
        return replace(run, error=self.error(run.objective))


def _measure(
    library: str, tolerances: tuple[float, ...], loss: str, settings: L1Settings, folder: Path, judge: _Judge
) -> L1Run:
    """The first tolerance whose answer is good enough, timed `repeat` times; else the best that came in time."""
    best: L1Run | None = None
    spent, longest, worker, before = 0.0, 0.0, None, _processor_time()
    try:
        worker = Worker(_Task(library, loss, settings.C, folder, settings.limit))
        for tol in tolerances:
            walls, cpus = [], []
            for _ in range(settings.repeat):
                # One limit for all tolerances: what the failed ones took is gone.
                answer = worker.fit({"tol": tol}, max(settings.limit - spent, 0.01))
                x, a, cpu = answer.solution
                walls.append(answer.seconds)
                cpus.append(cpu)
                objective = judge.objective(x, a)
                if judge.error(objective) > settings.error or answer.seconds > _LONG:
                    break  # not worth another
            features = int(np.count_nonzero(x[:-1]))
            run = L1Run(library, median(walls), median(cpus), objective, math.nan, features, tol or None)
            if best is None or objective < best.objective:
                best = run
            if judge.error(objective) <= settings.error:
                return run
            spent += walls[-1]
            longest = max(longest, cpus[-1])
    except (OverLimitError, WorkerError) as error:
        took = cpu = math.nan
        if isinstance(error, OverLimitError):  # its process has ended, and its time is known
            took = settings.limit - spent
            # What it needs is more than any of its runs took.
            cpu = max(longest, _processor_time() - before - float((folder / _BEGAN).read_text()))
        if best is None:
            return L1Run(library, took, cpu, note=str(error))
        return L1Run(library, took, cpu, best.objective, math.nan, best.features, best.tol, str(error))
    finally:
        if worker is not None:
            worker.close()
    assert best is not None
    return L1Run(
        library, best.wall, best.cpu, best.objective, math.nan, best.features, best.tol, "at its smallest tolerance"
    )


def _processor_time() -> float:
    """Seconds of processes that were started here and have ended."""
    times = os.times()
    return times.children_user + times.children_system


def geometric_mean(results: list[L1Compared], loss: str, library: str | None = None) -> float:
    """Of the ratios of one loss: to the best peer of each problem, or to one library on all."""
    mine = [one for one in results if one.loss == loss]
    peers = [one.peer if library is None else one.run_of(library) for one in mine]
    ratios = [peer.cpu / one.ours.cpu for one, peer in zip(mine, peers, strict=True) if peer is not None]
    logs = [math.log(ratio) for ratio in ratios if math.isfinite(ratio)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan

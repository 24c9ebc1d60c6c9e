"""The libraries of linear machines: what each can solve, how it is asked, and how its weights are read.

Every library offers ``prepare(X, y, machine, threads)``, called outside the clock. It returns ``ready(goal)``, which
makes a `Fit`: ``run()`` is what is timed, ``read()`` collects the answer afterwards. A goal holds "tol" and, where the
library has it, "max_iter"; of dualgap "gap_tol" and perhaps "time_limit"; of both, perhaps a "seed".
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dualgap.bench.linear_engine import WARM_UP, prepare_ours
from dualgap.bench.linear_problems import LOSSES
from dualgap.bench.linear_scoring import Weights
from dualgap.bench.packages import OURS, Fit, Package, chosen
from dualgap.bench.samples import read_samples, subset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.linear_problems import LinearMachine
    from dualgap.bench.packages import Goal

    Prepare: TypeAlias = Callable[[Any, NDArray[np.float64], LinearMachine, int], Callable[[Goal], Fit]]

# Samples of the warm-up, as many as of kernel machines.
_WARM_ROWS = 2000
# Iterations of those who are to reach a gap, however long it takes: the limit of time ends them.
_UNLIMITED = 10_000_000
# The one peer with threads.
ALL_THREADS = "snapml-threads"
_NO_INTERCEPT = "has no penalised intercept"


@dataclass(frozen=True)
class LinearLibrary(Package):
    """A library of linear machines that takes part.

    Attributes
    ----------
    losses : tuple of str
        Losses that it takes part with: skglm has no other, and steps of SGDClassifier diverge with the squared one.
    intercept : bool
        Whether it has an intercept that is penalised.
    goal : dict
        Its default tolerance and limit of iterations (some have none to set).
    prepare : callable
        See the module.
    """

    losses: tuple[str, ...]
    intercept: bool
    goal: Mapping[str, float]
    prepare: Prepare

    def absence(self, machine: LinearMachine) -> str:
        """Why it cannot take part, or nothing."""
        if machine.loss not in self.losses:
            return f"takes part with the {' and '.join(self.losses)} loss only"
        if machine.intercept and not self.intercept:
            return _NO_INTERCEPT
        return self.missing()

    def raised(self) -> dict[str, float]:
        """What changes beside the tolerance where a gap is to be reached."""
        return {"max_iter": _UNLIMITED} if "max_iter" in self.goal else {}


@dataclass(frozen=True)
class LinearAssignment:
    """Who solves what: all that a worker has to know.

    Attributes
    ----------
    library, precision : str
        Key of `LIBRARIES`, and the dtype of the samples.
    machine : LinearMachine
        What is to be solved.
    folder : Path
        Where `write_samples` put the samples.
    threads : int
        Threads of those who have any.
    """

    library: str
    precision: str
    machine: LinearMachine
    folder: Path
    threads: int

    def start(self) -> tuple[Callable[[Goal], Fit], float]:
        """Read the samples, warm up and prepare: what makes fits, and the seconds of the warm-up."""
        X, y = read_samples(self.folder, self.precision)
        assert y is not None
        library = LIBRARIES[self.library]
        part, labels = subset(X, y, _WARM_ROWS)
        assert labels is not None
        began = time.perf_counter()
        ready = library.prepare(part, labels, self.machine, self.threads)
        for goal in WARM_UP if self.library == OURS else (dict(library.goal),):
            ready(goal).run()
        took = time.perf_counter() - began
        return library.prepare(X, y, self.machine, self.threads), took


def _prepare_linear_svc(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    """``dual`` is left at "auto": the primal method for squared hinge with fewer features than samples."""
    from sklearn.svm import LinearSVC

    def ready(goal: Goal) -> Fit:
        model = LinearSVC(loss=machine.loss, C=machine.C, fit_intercept=machine.intercept, **_settings(goal))
        return Fit(lambda: model.fit(X, y), _read_coef)

    return ready


def _prepare_sgd(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    from sklearn.linear_model import SGDClassifier

    # Its objective is the mean loss plus alpha / 2 |w|^2.
    alpha = 1.0 / (machine.C * X.shape[0])

    def ready(goal: Goal) -> Fit:
        model = SGDClassifier(loss=machine.loss, alpha=alpha, fit_intercept=False, **_settings(goal))
        return Fit(lambda: model.fit(X, y), _read_coef)

    return ready


def _prepare_skglm(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    """Its LinearSVC solves the dual of the hinge loss; it has no seed."""
    from sklearn.exceptions import ConvergenceWarning

    skglm: Any = importlib.import_module("skglm")

    def ready(goal: Goal) -> Fit:
        most = int(goal["max_iter"])
        model = skglm.LinearSVC(C=machine.C, fit_intercept=False, tol=goal["tol"], max_iter=most)

        def run() -> Any:
            model.fit(X, y)
            if model.n_iter_ >= most:  # which it does not say
                warnings.warn(f"all of its {most} working sets are used up", ConvergenceWarning, stacklevel=2)
            return model

        return Fit(run, _read_coef)

    return ready


def _prepare_snapml(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    snapml: Any = importlib.import_module("snapml")

    def ready(goal: Goal) -> Fit:
        model = snapml.SupportVectorMachine(
            loss=machine.loss,
            regularizer=1.0 / machine.C,
            fit_intercept=machine.intercept,
            n_jobs=threads,
            **_settings(goal),
        )
        return Fit(lambda: model.fit(X, y), _read_coef)

    return ready


def _prepare_snapml_alone(
    X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int
) -> Callable[[Goal], Fit]:
    return _prepare_snapml(X, y, machine, 1)


def _settings(goal: Goal) -> dict[str, Any]:
    """A goal in scikit-learn's words; the same seed every time unless there is one."""
    return {"tol": goal["tol"], "max_iter": int(goal["max_iter"]), "random_state": int(goal.get("seed", 0))}


def _read_coef(model: Any) -> Weights:
    intercept = np.ravel(getattr(model, "intercept_", 0.0))
    return Weights(np.ravel(model.coef_).astype(np.float64), float(intercept[0]) if intercept.size else 0.0)


# LIBLINEAR's own numbers: dual coordinate descent for both losses (1 is what it takes unless told otherwise).
_LIBLINEAR_TYPE = {"squared_hinge": 1, "hinge": 3}


def _prepare_liblinear(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    """LIBLINEAR's own structures, built from a sparse matrix because that does not loop in Python.

    They are built inside the clock, as they are in scikit-learn's fit: everybody begins with the same CSR matrix, and
    dualgap's checks and norms are timed as well.
    """
    import scipy.sparse as sp
    from sklearn.exceptions import ConvergenceWarning

    library: Any = importlib.import_module("liblinear.liblinear")
    train = importlib.import_module("liblinear.liblinearutil").train
    rows = sp.csr_matrix(X)

    def ready(goal: Goal) -> Fit:
        bias = 1 if machine.intercept else -1
        parameter = library.parameter(
            f"-s {_LIBLINEAR_TYPE[machine.loss]} -c {machine.C!r} -e {goal['tol']!r} -B {bias}"
        )
        said: list[bytes] = []
        parameter.print_func = library.PRINT_STRING_FUN(said.append)

        def run() -> Any:
            model = train(library.problem(y, rows), parameter)
            for line in b"".join(said).decode(errors="replace").splitlines():
                if "WARNING" in line:
                    warnings.warn(line.replace("WARNING: ", ""), ConvergenceWarning, stacklevel=2)
            return model

        return Fit(run, lambda model: _read_liblinear(model, X.shape[1], machine.intercept))

    return ready


def _read_liblinear(model: Any, d: int, intercept: bool) -> Weights:
    # The weights belong to the label that came first.
    weights = np.ctypeslib.as_array(model.w, (d + intercept,)) * float(model.get_labels()[0])
    return Weights(weights[:d].copy(), float(weights[d]) if intercept else 0.0)


# Default tolerance and limit of iterations of those who have both.
_SKLEARN, _SGD, _SKGLM, _SNAPML = (
    {"tol": tol, "max_iter": max_iter} for tol, max_iter in ((1e-4, 1000), (1e-3, 1000), (1e-4, 50), (1e-3, 1000))
)
_HINGE = ("hinge",)

LIBRARIES: dict[str, LinearLibrary] = {
    library.name: library
    for library in (
        LinearLibrary(OURS, "dualgap", "dualgap", LOSSES, True, {}, prepare_ours),
        LinearLibrary("scikit-learn", "scikit-learn", "sklearn", LOSSES, True, _SKLEARN, _prepare_linear_svc),
        LinearLibrary("liblinear", "liblinear-official", "liblinear", LOSSES, True, {"tol": 0.1}, _prepare_liblinear),
        LinearLibrary("sgd", "scikit-learn", "sklearn", _HINGE, False, _SGD, _prepare_sgd),
        LinearLibrary("skglm", "skglm", "skglm", _HINGE, False, _SKGLM, _prepare_skglm),
        # As it comes, with one thread, and with all: more are faster, but end at larger gaps.
        LinearLibrary("snapml", "snapml", "snapml", LOSSES, True, _SNAPML, _prepare_snapml_alone),
        LinearLibrary(ALL_THREADS, "snapml", "snapml", LOSSES, True, _SNAPML, _prepare_snapml),
    )
}
PEERS = tuple(name for name in LIBRARIES if name != OURS)


def select_peers(names: list[str]) -> tuple[str, ...]:
    """The peers of these names; all of them for an empty list."""
    return tuple(chosen(names, PEERS, "peer"))

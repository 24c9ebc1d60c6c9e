"""The libraries that are compared: what each can solve, how it is asked, and how its dual variables are read.

Every library offers the same function ``prepare(X, y, machine, cache_size)``, called outside the clock. It returns
``ready(goal)``, which makes a `Fit`: ``run()`` is what is timed, ``read()`` collects the answer afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dualgap.bench.packages import OURS, Fit, Package, chosen, thinned
from dualgap.bench.samples import read_samples, subset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.packages import Goal
    from dualgap.bench.problems import Machine

    Prepare: TypeAlias = Callable[[NDArray[Any], NDArray[Any] | None, Machine, float], Callable[[Goal], Fit]]

# Samples of the warm-up: enough to start threads and to take the paths of larger problems, and over in a second.
_WARM_ROWS = 2000
# Megabytes of kernel cache of the second warm-up: too few for those samples, so that rows are also replaced.
_WARM_CACHE = 4.0
_WARM_TOL = 1e-2


@dataclass(frozen=True)
class Solution:
    """What a library found, in LIBSVM's layout.

    Attributes
    ----------
    support : ndarray of intp, shape (m,)
        Samples with a coefficient.
    coefficients : ndarray, shape (n_classes - 1, m) or (1, m)
        Signed dual variables; row j of a sample belongs to the pair with the j-th other class.
    classes : ndarray or None
        Labels in the order that the layout goes by, None where there are no classes.
    history : list of (seconds, relative gap)
        What dualgap believed on the way; empty for the others and for several pairs.
    solver : str
        Not read off: all machines of a comparison are solved by one.
    """

    support: NDArray[np.intp]
    coefficients: NDArray[np.float64]
    classes: NDArray[np.float64] | None = None
    history: list[tuple[float, float]] = field(default_factory=list)
    solver: str = ""


@dataclass(frozen=True)
class Library(Package):
    """A library of kernel machines that takes part.

    Attributes
    ----------
    rows : frozenset of str
        Formulations it solves.
    precisions : tuple of str
        Input that it computes with as it is.
    prepare : callable
        See the module.
    """

    rows: frozenset[str]
    precisions: tuple[str, ...]
    prepare: Prepare

    def absence(self, row: str) -> str:
        """Why it cannot take part, or nothing."""
        return self.missing() if row in self.rows else f"has no {row}"


@dataclass(frozen=True)
class Assignment:
    """Who solves what: all that a worker has to know.

    Attributes
    ----------
    library, precision : str
        Key of `LIBRARIES`, and the dtype of the samples.
    machine : Machine
        Formulation and parameters.
    folder : Path
        Where `write_samples` put the samples.
    cache_size : float
        Megabytes for kernel values.
    threads : int
        Threads that OpenMP may use.
    """

    library: str
    precision: str
    machine: Machine
    folder: Path
    cache_size: float
    threads: int

    def start(self) -> tuple[Callable[[Goal], Fit], float]:
        """Read the samples, warm up and prepare: what makes fits, and the seconds of the warm-up."""
        X, y = read_samples(self.folder, self.precision)
        began = time.perf_counter()
        self._warm_up(X, y)
        took = time.perf_counter() - began
        return LIBRARIES[self.library].prepare(X, y, self.machine, self.cache_size), took

    def _warm_up(self, X: Any, y: Any) -> None:
        """Small fits of the same kind: what they compile, load or start is not timed later."""
        X, y = subset(X, y, _WARM_ROWS)
        machine = self.machine
        if machine.row == "svdd":
            machine = replace(machine, C=1.0 / (machine.nu * X.shape[0]))
        goal = {"gap_tol" if self.library == OURS else "tol": _WARM_TOL}
        for cache_size in (self.cache_size, _WARM_CACHE):
            LIBRARIES[self.library].prepare(X, y, machine, cache_size)(goal).run()


_ESTIMATOR = {
    "c_svc": ("SVC", ("C",)),
    "nu_svc": ("NuSVC", ("nu",)),
    "eps_svr": ("SVR", ("C", "epsilon")),
    "nu_svr": ("NuSVR", ("C", "nu")),
    "one_class": ("OneClassSVM", ("nu",)),
}


def _estimator(module: str, table: dict[str, tuple[str, tuple[str, ...]]]) -> Prepare:
    """Preparation of a library with scikit-learn's interface."""

    def prepare(X: NDArray[Any], y: NDArray[Any] | None, machine: Machine, cache_size: float) -> Callable[[Goal], Fit]:
        name, parameters = table[machine.row]
        make = getattr(importlib.import_module(module), name)
        settings = {parameter: getattr(machine, parameter) for parameter in parameters}

        def ready(goal: Goal) -> Fit:
            model = make(kernel="rbf", gamma=machine.gamma, cache_size=cache_size, **settings, **goal)
            return Fit(lambda: model.fit(X, y), _read_estimator)

        return ready

    return prepare


def _read_estimator(model: Any) -> Solution:
    if type(model).__module__.startswith("sklearnex") and not hasattr(model, "_onedal_estimator"):
        raise RuntimeError("handed this problem over to scikit-learn")
    coefficients = np.atleast_2d(np.asarray(model.dual_coef_, dtype=np.float64))
    classes = getattr(model, "classes_", None)
    return Solution(np.asarray(model.support_, dtype=np.intp), coefficients, classes, _history(model))


def _history(model: Any) -> list[tuple[float, float]]:
    history = getattr(model, "history_", None)
    if history is None or isinstance(history, list):
        return []
    return thinned(history.events)


# The numbers that LIBSVM has for its formulations.
_LIBSVM_TYPES = {"c_svc": 0, "nu_svc": 1, "one_class": 2, "svdd": 2, "eps_svr": 3, "nu_svr": 4}


def _prepare_libsvm(
    X: NDArray[Any], y: NDArray[Any] | None, machine: Machine, cache_size: float
) -> Callable[[Goal], Fit]:
    """LIBSVM's own structures, built from a sparse matrix because that does not loop in Python."""
    import scipy.sparse as sp

    library: Any = importlib.import_module("libsvm.svmutil")
    data = library.svm_problem(np.ones(X.shape[0]) if y is None else y, sp.csr_matrix(X))

    def ready(goal: Goal) -> Fit:
        options = (
            f"-q -s {_LIBSVM_TYPES[machine.row]} -t 2 -g {machine.gamma!r} -c {machine.C!r} -n {machine.nu!r} "
            f"-p {machine.epsilon!r} -m {cache_size!r} -e {goal['tol']!r}"
        )
        parameter = library.svm_parameter(options)
        return Fit(lambda: library.svm_train(data, parameter), lambda model: _read_libsvm(model, machine.row))

    return ready


def _read_libsvm(model: Any, row: str) -> Solution:
    # LIBSVM counts samples from 1.
    support = np.asarray(model.get_sv_indices(), dtype=np.intp) - 1
    coefficients = np.asarray(model.get_sv_coef(), dtype=np.float64).reshape(support.size, -1).T
    classes = np.asarray(model.get_labels(), dtype=np.float64) if row in ("c_svc", "nu_svc") else None
    return Solution(support, coefficients, classes)


def libsvm_has_openmp() -> bool | None:
    """Whether the LIBSVM that is installed was compiled with OpenMP; None where there is none."""
    spec = importlib.util.find_spec("libsvm")
    if spec is None or not spec.submodule_search_locations:
        return None
    # The runtimes of GCC, Clang and Microsoft's compiler, as a library that calls them names them.
    runtimes = (b"GOMP_parallel", b"__kmpc_fork_call", b"vcomp")
    binaries = [path for place in spec.submodule_search_locations for path in Path(place).glob("clib*")]
    return any(runtime in path.read_bytes() for path in binaries for runtime in runtimes)


_WITH_SVDD = {**_ESTIMATOR, "svdd": ("SVDD", ("C",))}
_AS_ONE_CLASS = {**_ESTIMATOR, "svdd": _ESTIMATOR["one_class"]}
_INTEL_ROWS = frozenset({"c_svc", "nu_svc", "eps_svr", "nu_svr"})
_DOUBLE, _BOTH = ("float64",), ("float64", "float32")

LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (
        Library(OURS, "dualgap", "dualgap", frozenset(_WITH_SVDD), _BOTH, _estimator("dualgap", _WITH_SVDD)),
        # scikit-learn and LIBSVM turn single precision into double first.
        Library(
            "scikit-learn",
            "scikit-learn",
            "sklearn",
            frozenset(_AS_ONE_CLASS),
            _DOUBLE,
            _estimator("sklearn.svm", _AS_ONE_CLASS),
        ),
        Library(
            "intelex",
            "scikit-learn-intelex",
            "sklearnex",
            _INTEL_ROWS,
            _BOTH,
            _estimator("sklearnex.svm", _ESTIMATOR),
        ),
        Library("libsvm", "libsvm-official", "libsvm", frozenset(_LIBSVM_TYPES), _DOUBLE, _prepare_libsvm),
    )
}
PEERS = tuple(name for name in LIBRARIES if name != OURS)


def select_peers(names: list[str]) -> tuple[str, ...]:
    """The peers of these names; all of them for an empty list."""
    return tuple(chosen(names, PEERS, "peer"))

"""The problems of ``dualgap bench kernel``: which data, how it is prepared, and the parameters of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dualgap.bench.packages import chosen
from dualgap.bench.preparation import WHITE, breast_cancer, read_file, signs, standardised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Samples: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64] | None]

# Seed of the permutation that draws rows of the larger sets: any would do, but it has to be the same every time.
_SEED = 0


@dataclass(frozen=True)
class Machine:
    """What is to be solved, in numbers: a row of the formulation table with an RBF kernel.

    Attributes
    ----------
    row : str
        Key of `dualgap.FORMULATIONS`.
    gamma : float
        Width of the kernel.
    C, nu, epsilon : float
        Parameters, read where the row has them. Of svdd, `nu` is that of the equivalent one-class machine.
    """

    row: str
    gamma: float
    C: float = 1.0
    nu: float = 0.5
    epsilon: float = 0.1


@dataclass(frozen=True)
class Problem:
    """One line of the comparison.

    Attributes
    ----------
    name : str
        How the command line selects it.
    file : str
        The data set it is made of, as `dualgap.datasets.find` knows it; empty for one bundled with scikit-learn.
    read : callable
        Samples in float64 (C order) and labels, targets or None.
    row : str
        Key of `dualgap.FORMULATIONS`.
    gamma : float or None
        Width of the RBF kernel; None for one over the number of features.
    C, nu, epsilon : float
        Parameters, read where the row has them.
    extra : bool
        A formulation beside C-SVC and eps-SVR: shown below the others, with a mean of its own.
    usual : bool
        Whether it runs when no problem is selected.
    remark : str
        What a reader of the table has to know.
    cache_size : float or None
        Megabytes for kernel values, where they are not those of the whole comparison: a problem about memory.
    """

    name: str
    file: str
    read: Callable[[], Samples]
    row: str = "c_svc"
    gamma: float | None = None
    C: float = 1.0
    nu: float = 0.5
    epsilon: float = 0.1
    extra: bool = False
    usual: bool = True
    remark: str = ""
    cache_size: float | None = None

    def machine(self, n: int, d: int) -> Machine:
        """The parameters for `n` samples of `d` features."""
        gamma = 1.0 / d if self.gamma is None else self.gamma
        # With k(x, x) constant, svdd with C = 1 / (nu n) is the one-class machine with nu, its variables divided by
        # nu n: both minimise a'Ka over the same set but for that factor.
        C = 1.0 / (self.nu * n) if self.row == "svdd" else self.C
        return Machine(self.row, gamma, C, self.nu, self.epsilon)

    def title(self) -> str:
        """Formulation and parameters in a few words."""
        from dualgap.formulations import FORMULATIONS

        names = ("nu",) if self.row == "svdd" else FORMULATIONS[self.row].parameters
        values = [f"{name}={getattr(self, name):g}" for name in names]
        gamma = "1/d" if self.gamma is None else f"{self.gamma:g}"
        return " ".join([self.row, *values, f"gamma={gamma}"])


def read_problem(problem: Problem) -> Samples:
    """The samples of a problem, checked: finite float64 in C order."""
    X, y = problem.read()
    X = np.ascontiguousarray(X, dtype=np.float64)
    if not np.all(np.isfinite(X)):
        raise ValueError(f"problem {problem.name}: its data has values that are not finite; read the file anew.")
    return X, y


def check_files(files: Iterable[str]) -> None:
    """Find out, before hours of work are done, whether all data is there; the empty name needs no file."""
    from dualgap.datasets import find

    for name in dict.fromkeys(files):
        if name:
            find(name)


def select(names: list[str]) -> list[Problem]:
    """The problems of these names, in the order of the table; the usual ones for an empty list."""
    if not names:
        return [problem for problem in PROBLEMS.values() if problem.usual]
    return [PROBLEMS[name] for name in chosen(names, PROBLEMS, "problem")]


def _file(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = read_file(name)
    return X.toarray(order="C"), y


def _drawn(total: int, size: int) -> NDArray[np.intp]:
    """Row numbers of a random part."""
    return np.random.default_rng(_SEED).permutation(total)[:size]


def _as_it_is(name: str) -> Callable[[], Samples]:
    return lambda: _file(name)


def _covtype(size: int, labelled: bool = True) -> Callable[[], Samples]:
    def read() -> Samples:
        X, y = _file("covtype")
        low, high = X.min(axis=0), X.max(axis=0)
        rows = _drawn(len(X), size)
        # A column that never varies is left at zero.
        X = (X[rows] - low) / np.where(high > low, high - low, 1.0)
        return X, signs(y[rows] == 2) if labelled else None

    return read


def _letter() -> Samples:
    X, y = _file("letter")
    return X, signs(y <= 13)  # the first half of the alphabet


def _mnist(size: int) -> Callable[[], Samples]:
    def read() -> Samples:
        X, y = _file("mnist")
        rows = _drawn(len(X), size)
        return X[rows] / WHITE, signs(y[rows] % 2 == 1)

    return read


def _standardised(name: str) -> Callable[[], Samples]:
    def read() -> Samples:
        X, y = _file(name)
        return standardised(X), (y - y.mean()) / y.std()

    return read


_EQUIVALENT = "no peer has svdd: theirs is the equivalent one-class machine, scored as svdd"

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("a9a", "a9a", _as_it_is("a9a"), gamma=0.0081),
        Problem("ijcnn1_c1", "ijcnn1", _as_it_is("ijcnn1"), gamma=1.0),
        Problem("ijcnn1_c32", "ijcnn1", _as_it_is("ijcnn1"), gamma=2.0, C=32.0),
        Problem("covtype_20k", "covtype", _covtype(20_000), gamma=2.0, C=10.0),
        Problem("covtype_50k", "covtype", _covtype(50_000), gamma=2.0, C=10.0),
        Problem("letter_c10", "letter", _letter, gamma=4.0, C=10.0),
        Problem("letter_c100", "letter", _letter, gamma=1.0, C=100.0),
        Problem("mnist_20k", "mnist", _mnist(20_000), gamma=0.02, C=10.0),
        Problem("usps", "usps", _as_it_is("usps"), gamma=1.0 / 128, C=10.0, remark="ten classes, 45 pairs"),
        Problem("cadata", "cadata", _standardised("cadata"), "eps_svr", C=1.0),
        Problem("cpusmall", "cpusmall", _standardised("cpusmall"), "eps_svr", C=10.0),
        # At most 0.194 is feasible there: twice the fraction of the smaller class.
        Problem("ijcnn1_nu_svc", "ijcnn1", _as_it_is("ijcnn1"), "nu_svc", gamma=1.0, nu=0.05, extra=True),
        Problem(
            "covtype_one_class", "covtype", _covtype(20_000, labelled=False), "one_class", gamma=2.0, nu=0.1, extra=True
        ),
        Problem(
            "covtype_svdd",
            "covtype",
            _covtype(20_000, labelled=False),
            "svdd",
            2.0,
            nu=0.1,
            extra=True,
            remark=_EQUIVALENT,
        ),
        Problem("cpusmall_nu_svr", "cpusmall", _standardised("cpusmall"), "nu_svr", C=10.0, nu=0.5, extra=True),
        # About memory: the kernel matrix takes 29 GB, and everybody gets 100 MB for it.
        Problem(
            "mnist-60k-100mb",
            "mnist",
            _mnist(60_000),
            gamma=0.02,
            C=10.0,
            extra=True,
            usual=False,
            remark="100 MB for kernel values, whatever --cache-size says",
            cache_size=100.0,
        ),
        # Bundled with scikit-learn, so that the command can be tried without any file; too small to compare speed.
        Problem("breast_cancer", "", breast_cancer, C=10.0, usual=False),
    )
}

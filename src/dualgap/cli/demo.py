"""``dualgap demo``: one data set, two libraries, and what a certificate adds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dualgap.cli.output import counted, evidence, fact, standard, verdict
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.result import Certificate

# Odd, so that the median is one of the runs; five of them take well below a second.
_RUNS = 5
_C = 10.0
# What scikit-learn stops at unless told otherwise, and a gap that its users have no way to ask for.
_TOL, _GAP_TOL = 1e-3, 1e-6


@dataclass(frozen=True)
class _Row:
    """What the table says of one library."""

    name: str
    seconds: float
    accuracy: float
    support: int
    certificate: Certificate


def demo() -> None:
    """Train on a bundled data set, certify the result, and compare with scikit-learn."""
    import sklearn.svm

    from dualgap.estimators import SVC

    X, X_test, y, y_test = _split()
    fact("data", f"breast cancer (bundled with scikit-learn), standardised: {_shape(X, X_test)}")
    gamma = 1.0 / X.shape[1]
    common: dict[str, Any] = {"C": _C, "gamma": gamma}
    fact("model", f"C-support vector classification, C {_C:g}, RBF kernel with gamma {gamma:.4g}")
    problem = _problem(X, y, gamma)
    makers: dict[str, Callable[[], Any]] = {
        f"scikit-learn SVC, tol={_TOL:g}": lambda: sklearn.svm.SVC(tol=_TOL, **common),
        f"dualgap SVC, tol={_TOL:g}": lambda: SVC(tol=_TOL, **common),
        f"dualgap SVC, gap_tol={_GAP_TOL:g}": lambda: SVC(gap_tol=_GAP_TOL, **common),
    }
    rows = [_measure(name, make, problem, X, y, X_test, y_test) for name, make in makers.items()]
    own = rows[-1].certificate
    fact("certificate", verdict(own), style="green")
    fact("", evidence(own))
    standard().print()
    _print_table(rows)
    _print_next()


def _split() -> list[NDArray[np.float64]]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    scaler = StandardScaler().fit(X)
    return [scaler.transform(X), scaler.transform(X_test), y, y_test]


def _shape(X: NDArray[np.float64], X_test: NDArray[np.float64]) -> str:
    return f"{counted(len(X), 'sample')} to train on, {len(X_test)} to test, {X.shape[1]} features"


def _problem(X: NDArray[np.float64], y: NDArray[np.float64], gamma: float) -> DualQP:
    """The quadratic program that both libraries solve."""
    import numpy as np

    from dualgap.formulations import build
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import make_gram

    return build("c_svc", make_gram(X, Kernel("rbf", gamma=gamma)), np.where(y == 1, 1.0, -1.0), C=_C)


def _measure(name: str, make: Callable[[], Any], problem: DualQP, X: Any, y: Any, X_test: Any, y_test: Any) -> _Row:
    """Fit once to warm up, then time; judge the solution by `certify`, whoever has found it."""
    import numpy as np

    from dualgap.certificate import certify

    model = make().fit(X, y)
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        make().fit(X, y)
        times.append(time.perf_counter() - began)
    a = np.zeros(problem.n)
    a[model.support_] = np.abs(model.dual_coef_).ravel()
    certificate, _ = certify(problem, a)
    accuracy = float(np.mean(model.predict(X_test) == y_test))
    return _Row(name, sorted(times)[_RUNS // 2], accuracy, len(model.support_), certificate)


def _print_table(rows: list[_Row]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    for heading in ("training", "accuracy", "vectors", "objective", "gap"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            Text(row.name),
            f"{row.seconds * 1e3:.1f} ms",
            f"{row.accuracy:.3f}",
            f"{row.support}",
            f"{row.certificate.primal:.6f}",
            at_most(row.certificate.relative_gap),
        )
    standard().print(table)
    standard().print()
    fact(
        "note",
        f"Times are medians of {_RUNS} runs after one that is not timed, which compiles or loads code. "
        "Accuracy is on the test samples. Objective (lower is better) and relative duality gap are computed "
        "by dualgap.certify, for both libraries, from their dual coefficients.",
    )


def _print_next() -> None:
    fact("next", "dualgap train DATA.csv -o model.dualgap --report report.html")
    fact("", "dualgap predict model.dualgap DATA.csv")
    fact("", "dualgap solvers")
    fact("in Python", "from dualgap import SVC; SVC(gap_tol=1e-6).fit(X, y).certificate_")
    fact("docs", "README.md and docs/ in the source, help(dualgap.SVC)")

"""Who solves L1-SVMs in ``dualgap bench l1``: each library's own structures are made ready first, and are not timed.

    highs               the whole linear program (hinge), by SciPy
    liblinear           LIBLINEAR's solver 5 (squared hinge), by scikit-learn
    liblinear-official  the same in LIBLINEAR's own package, which ends after 1000 iterations whatever is asked for
    skglm               its coordinate descent with working sets and Anderson acceleration; the squared hinge is no
                        datafit of skglm's, and is given to it by the interface that it has for its users' own. (Its
                        QuadraticSVC is the dual of an L2 machine.)
    skglm-newton        its proximal Newton method with working sets, given the same loss; it compiles for half a minute
                        in each process, which is not timed

celer has quadratic and logistic losses, no way to give it another, and does not take part.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.packages import OURS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.packages import Goal

PEERS = {"hinge": ("highs",), "squared_hinge": ("liblinear", "liblinear-official", "skglm", "skglm-newton")}
_MODULES = {"liblinear-official": "liblinear", "skglm": "skglm", "skglm-newton": "skglm"}
# Iterations of those who are to reach an error, however long it takes: the limit of time ends them.
_UNLIMITED = 10_000_000
# Working sets of skglm at most, ten times its default and more: it goes on for ever at a tolerance out of its reach.
_ROUNDS = 500
# Weights with the bias, and multipliers where there are some.
Answer = tuple["NDArray[np.float64]", "NDArray[np.float64] | None"]
Ready = Callable[["Goal"], Answer]


def installed(loss: str) -> tuple[str, ...]:
    """The peers of this loss that can be imported here."""
    return tuple(name for name in PEERS[loss] if importlib.util.find_spec(_MODULES.get(name, "scipy")) is not None)


def bias_of(loss: str) -> str:
    """The bias that all solvers of this loss can have."""
    return "free" if loss == "hinge" else "penalised"


def ready(library: str, X: Any, y: NDArray[np.float64], loss: str, C: float, limit: float) -> Ready:
    """What solves this problem to a goal, with the library's own structures made."""
    if library == OURS:
        return _ours(X, y, loss, C)
    if library == "highs":
        return _highs(X, y, C, limit)
    if library == "liblinear":
        return _liblinear(X, y, C)
    if library == "liblinear-official":
        return _liblinear_official(X, y, C)
    return _skglm(X, y, C, newton=library == "skglm-newton")


def _ours(X: Any, y: NDArray[np.float64], loss: str, C: float) -> Ready:
    from dualgap.l1svm import solve_l1_svm

    def solve(goal: Goal) -> Answer:
        result = solve_l1_svm(X, y, C, loss=loss, bias=bias_of(loss), gap_tol=goal["tol"])
        return np.append(result.coef, result.intercept), result.a

    return solve


def _highs(X: Any, y: NDArray[np.float64], C: float, limit: float) -> Ready:
    """Variables w+, w-, b, xi; the limit is HiGHS's own as well."""
    import scipy.sparse as sp
    from scipy.optimize import linprog

    n, d = X.shape
    Z = sp.csc_array(sp.diags_array(y) @ sp.csr_array(X))
    A = sp.hstack([-Z, Z, -y[:, None], -sp.eye_array(n)], format="csc")
    low = np.zeros(A.shape[1])
    low[2 * d] = -np.inf

    def solve(goal: Goal) -> Answer:
        answer = linprog(
            np.concatenate([np.ones(2 * d), [0.0], np.full(n, C)]),
            A_ub=A,
            b_ub=-np.ones(n),
            bounds=np.column_stack([low, np.full(low.size, np.inf)]),
            method="highs",
            options={"time_limit": limit},
        )
        if answer.x is None:
            raise RuntimeError(answer.message)
        return np.append(answer.x[:d] - answer.x[d : 2 * d], answer.x[2 * d]), None

    return solve


def _liblinear(X: Any, y: NDArray[np.float64], C: float) -> Ready:
    from sklearn.svm import LinearSVC

    def solve(goal: Goal) -> Answer:
        model = LinearSVC(
            penalty="l1", loss="squared_hinge", dual=False, C=C, tol=goal["tol"], max_iter=_UNLIMITED, random_state=0
        ).fit(X, y)
        return np.append(model.coef_.ravel(), model.intercept_), None

    return solve


def _liblinear_official(X: Any, y: NDArray[np.float64], C: float) -> Ready:
    import scipy.sparse as sp

    library: Any = importlib.import_module("liblinear.liblinear")
    train = importlib.import_module("liblinear.liblinearutil").train
    data = library.problem(y, sp.csr_matrix(X))

    def solve(goal: Goal) -> Answer:
        model = train(data, library.parameter(f"-s 5 -c {C!r} -e {goal['tol']!r} -B 1 -q"))
        # The weights belong to the label that came first.
        weights = np.ctypeslib.as_array(model.w, (X.shape[1] + 1,)) * float(model.get_labels()[0])
        return weights.copy(), None

    return solve


def _skglm(X: Any, y: NDArray[np.float64], C: float, newton: bool) -> Ready:
    """The bias is the weight of one more feature.

    A goal may limit the rounds: that is for the warm-up, which no limit of time ends, and which is there to compile.
    """
    import scipy.sparse as sp

    kind = getattr(importlib.import_module("skglm.solvers"), "ProxNewton" if newton else "AndersonCD")
    ones = np.ones((y.size, 1))
    A = sp.csc_matrix(sp.hstack([X, ones])) if sp.issparse(X) else np.asfortranarray(np.hstack([X, ones]))
    loss, l1 = _squared_hinge()(C), importlib.import_module("skglm.penalties").L1(1.0)

    def solve(goal: Goal) -> Answer:
        few = {"max_pn_iter": goal["rounds"]} if newton and "rounds" in goal else {}
        solver = kind(fit_intercept=False, tol=goal["tol"], max_iter=goal.get("rounds", _ROUNDS), **few)
        return np.asarray(solver.solve(A, y, loss, l1)[0]), None

    return solve


@cache
def _squared_hinge() -> Any:
    """``C sum max(0, 1 - y z)^2`` in skglm's terms, as a class.

    skglm compiles its methods, so they speak Numba, once for each class. So there must be one: what the warm-up has
    compiled is not to be timed again.
    """
    from numba import float64

    base: Any = importlib.import_module("skglm.datafits.base").BaseDatafit

    class SquaredHinge(base):  # type: ignore[misc]
        def __init__(self, C):  # type: ignore[no-untyped-def]
            self.C = C

        def get_spec(self):  # type: ignore[no-untyped-def]
            return (("C", float64),)

        def params_to_dict(self):  # type: ignore[no-untyped-def]
            return {"C": self.C}

        def get_lipschitz(self, X, y):  # type: ignore[no-untyped-def]
            most = np.zeros(X.shape[1])
            for j in range(X.shape[1]):
                most[j] = 2.0 * self.C * (X[:, j] ** 2).sum()
            return most

        def get_lipschitz_sparse(self, data, indptr, indices, y):  # type: ignore[no-untyped-def]
            most = np.zeros(len(indptr) - 1)
            for j in range(len(indptr) - 1):
                for k in range(indptr[j], indptr[j + 1]):
                    most[j] += 2.0 * self.C * data[k] ** 2
            return most

        def value(self, y, w, Xw):  # type: ignore[no-untyped-def]
            return self.C * (np.maximum(1.0 - y * Xw, 0.0) ** 2).sum()

        def raw_grad(self, y, Xw):  # type: ignore[no-untyped-def]
            return -2.0 * self.C * y * np.maximum(1.0 - y * Xw, 0.0)

        def raw_hessian(self, y, Xw):  # type: ignore[no-untyped-def]
            return np.where(y * Xw < 1.0, 2.0 * self.C, 0.0)

        def gradient_scalar(self, X, y, w, Xw, j):  # type: ignore[no-untyped-def]
            slope = 0.0
            for i in range(len(y)):
                slope -= 2.0 * self.C * y[i] * X[i, j] * max(1.0 - y[i] * Xw[i], 0.0)
            return slope

        def gradient_scalar_sparse(self, data, indptr, indices, y, Xw, j):  # type: ignore[no-untyped-def]
            slope = 0.0
            for k in range(indptr[j], indptr[j + 1]):
                i = indices[k]
                slope -= 2.0 * self.C * y[i] * data[k] * max(1.0 - y[i] * Xw[i], 0.0)
            return slope

        def full_grad_sparse(self, data, indptr, indices, y, Xw):  # type: ignore[no-untyped-def]
            slopes = np.zeros(len(indptr) - 1)
            for j in range(len(indptr) - 1):
                slopes[j] = self.gradient_scalar_sparse(data, indptr, indices, y, Xw, j)
            return slopes

    return SquaredHinge

"""Small composite problems, and answers to them by nobody here: SciPy's L-BFGS and HiGHS, Clarabel."""

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog, minimize

from dualgap.composite import Composite
from dualgap.losses import LOSSES, Squared, make_loss
from dualgap.operators import as_operator
from dualgap.regularisers import Penalty, penalty

NAMES = tuple(LOSSES)
REGULARISERS = ("l2", "l1", "elastic_net")


def data(m=60, n=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * np.linspace(0.5, 2.0, n)
    y = np.where(X[:, 0] - 0.5 * X[:, 1] + 0.7 * rng.normal(size=m) > 0.2, 1.0, -1.0)
    t = X[:, 0] - X[:, 2] + 0.3 * rng.normal(size=m) + 0.5
    return X, y, t


def loss(name, seed=0, m=60, **parameters):
    _, y, t = data(m, seed=seed)
    target = t if name in ("squared", "epsilon_insensitive") else y
    rng = np.random.default_rng(seed + 7)
    return make_loss({"name": name, "y": target, "C": 0.5 + rng.random(m), **parameters})


def problem(name, regulariser="l2", *, bias=True, seed=0, m=60, n=8):
    X, _, _ = data(m, n, seed=seed)
    parameters = {"eps": 0.1} if name in ("hinge", "epsilon_insensitive") else {}
    psi = penalty(regulariser, 0.7, **({} if regulariser in ("l2", "none") else {"eps": 0.1}))
    return Composite(as_operator(X, bias=bias), loss(name, seed, m, **parameters), psi, free=(-1,) if bias else ())


def quadratic(n=40, seed=0, condition=1e3):
    """``|Ax - y|^2`` with a known spectrum."""
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.normal(size=(n, n)))
    A = U * np.sqrt(np.geomspace(1.0 / condition, 1.0, n))
    return A, Composite(as_operator(A), Squared(rng.normal(size=n)), Penalty())


def lbfgs(p):
    """The minimum by SciPy, from 0 and then again from where it stopped."""

    def both(x):
        z = p.operator.matvec(x)
        return p.value(x, z), p.gradient(x, z)

    x = np.zeros(p.n)
    for _ in range(3):
        x = minimize(both, x, jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-16, "maxiter": 20000}).x
    return x


def svm_optimum(X, y, C, p, q, kernel=False, bias=True):
    """The least ``|w|_p^p + C sum xi^q`` (for kernels X is K and p = 2 means a'Ka), by Clarabel."""
    m, n = X.shape
    # Variables: w, b, s (|w| <= s for p = 1), xi.
    zero = sp.csc_matrix
    P = np.zeros((2 * n + 1 + m,) * 2)
    c = np.zeros(2 * n + 1 + m)
    if p == 2:
        P[:n, :n] = 2.0 * (X if kernel else np.eye(n))
    else:
        c[n + 1 : 2 * n + 1] = 1.0
    if q == 2:
        P[2 * n + 1 :, 2 * n + 1 :] = 2.0 * C * np.eye(m)
    else:
        c[2 * n + 1 :] = C
    eye = np.eye(n)
    rows = [
        np.hstack([-y[:, None] * X, -(y if bias else 0.0 * y)[:, None], np.zeros((m, n)), -np.eye(m)]),
        np.hstack([np.zeros((m, 2 * n + 1)), -np.eye(m)]),
        np.hstack([eye, np.zeros((n, 1)), -eye, np.zeros((n, m))]),
        np.hstack([-eye, np.zeros((n, 1)), -eye, np.zeros((n, m))]),
    ]
    A = np.vstack(rows)
    b = np.concatenate([-np.ones(m), np.zeros(m + 2 * n)])
    if p == 1 and q == 1:
        bounds = [(None, None)] * (n + 1) + [(0, None)] * (n + m)
        return float(linprog(c, A_ub=A, b_ub=b, bounds=bounds, method="highs").fun)
    cones = [clarabel.NonnegativeConeT(b.size)]
    for tolerance in (1e-11, 1e-9, 1e-8):  # the strictest that it reaches
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        answer = clarabel.DefaultSolver(zero(np.triu(P)), c, zero(A), b, cones, settings).solve()
        if answer.status == clarabel.SolverStatus.Solved:
            return float(answer.obj_val)
    raise AssertionError(f"Clarabel did not solve it: {answer.status}")


def composite_optimum(X, phi, l1, l2):
    """The least ``phi(Xw + b) + l1 |w|_1 + l2 |w|^2`` for a loss of `dualgap.losses`, by Clarabel.

    Variables: w, b, s with ``|w| <= s``, and xi, two a sample, whose meaning is that of the loss.
    """
    m, n = X.shape
    y, C, name = phi.y, np.asarray(phi.C), next(name for name, kind in LOSSES.items() if isinstance(phi, kind))
    size = 2 * n + 1 + 2 * m
    P, c = np.zeros(size), np.zeros(size)
    P[:n], c[n + 1 : 2 * n + 1] = 2.0 * l2, l1
    first, second = slice(2 * n + 1, 2 * n + 1 + m), slice(2 * n + 1 + m, size)
    Z, one, other = np.zeros((m, size)), np.zeros((m, size)), np.zeros((m, size))
    Z[:, :n], Z[:, n] = X, 1.0
    one[:, first], other[:, second] = np.eye(m), np.eye(m)
    eye, nothing = np.eye(n), np.zeros((n, 2 * m))
    # Pairs (A, b) with A v <= b, then exponential cones.
    low = [(np.hstack([sign * eye, np.zeros((n, 1)), -eye, nothing]), np.zeros(n)) for sign in (1.0, -1.0)]
    cones, equal = [], []
    margin = y[:, None] * Z
    if name in ("hinge", "squared_hinge"):
        low += [(-margin - one, -np.ones(m)), (-one, np.zeros(m)), (-other, np.zeros(m))]
    elif name == "huber_hinge":  # the part up to delta is squared, the rest is not
        low += [(-margin - one - other, -np.ones(m)), (-one, np.zeros(m)), (-other, np.zeros(m))]
        P[first], c[second] = C / phi.delta, C
    elif name == "epsilon_insensitive":
        low += [(Z - one, phi.tube + y), (-Z - one, phi.tube - y), (-one, np.zeros(m)), (-other, np.zeros(m))]
    elif name == "squared":
        equal = [(Z - one, y), (other, np.zeros(m))]
    else:  # exp(-yz - xi) + exp(-xi) <= 1, the first of them at most 1 - p, the second at most p (the other variable)
        cones = [(-margin - one, other, -1.0, 1.0), (-one, other, 1.0, 0.0)]
    if name in ("hinge", "epsilon_insensitive", "logistic"):
        c[first] = C
    elif name in ("squared_hinge", "squared"):
        P[first] = 2.0 * C
    rows, right = [A for A, _ in equal + low], [b for _, b in equal + low]
    kinds = [clarabel.ZeroConeT(sum(b.size for _, b in equal))] if equal else []
    kinds.append(clarabel.NonnegativeConeT(sum(b.size for _, b in low)))
    for A, B, sign, constant in cones:  # (A v, 1, constant + sign B v) in the cone
        for i in range(m):
            rows.append(np.vstack([-A[i], np.zeros(size), -sign * B[i]]))
            right.append(np.array([0.0, 1.0, constant]))
            kinds.append(clarabel.ExponentialConeT())
    for tolerance in (1e-11, 1e-9, 1e-8):  # the strictest that it reaches
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        matrix = sp.csc_matrix(np.vstack(rows))
        solver = clarabel.DefaultSolver(sp.csc_matrix(np.diag(P)), c, matrix, np.concatenate(right), kinds, settings)
        answer = solver.solve()
        if answer.status == clarabel.SolverStatus.Solved:
            return float(answer.obj_val)
    raise AssertionError(f"Clarabel did not solve it: {answer.status}")

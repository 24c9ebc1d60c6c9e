"""Small problems for the tests: every formulation, with and without bias, semi-parametric, on every kind of Gram."""

import numpy as np

import dualgap
from dualgap import FORMULATIONS, Kernel, build

ROWS = tuple(FORMULATIONS)


def data(n=60, d=4, seed=0):
    """Overlapping classes and a smooth target over the same points."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.6 * rng.normal(size=n) > 0.3, 1.0, -1.0)
    t = np.sin(X[:, 0]) + 0.4 * X[:, 1] + 0.1 * rng.normal(size=n)
    return X, y, t


def target(row, y, t):
    """What a row takes as y."""
    return {"classification": y, "regression": t, "outlier": None}[FORMULATIONS[row].task]


class Plain:
    """A Gram written by a user: nothing but the protocol."""

    def __init__(self, matrix):
        self.matrix, self.n, self.dtype = matrix, matrix.shape[0], matrix.dtype
        self.psd, self.factor, self.evaluations = True, None, 0

    def diag(self):
        return np.diag(self.matrix).astype(float)

    def block(self, rows, columns):
        return self.matrix[np.ix_(rows, columns)]

    def rows(self, points):
        return self.matrix[points]

    def accumulate(self, out, points, delta, rows=None):
        out += (self.matrix if rows is None else self.matrix[rows])[:, points] @ delta

    def exact(self, weights, rows=None):
        return (self.matrix if rows is None else self.matrix[rows]).astype(float) @ weights


GRAMS = ("full", "cached", "small cache", "element", "factored", "precomputed", "float32", "sparse", "own class")


def gram(kind, X, gamma=0.3):
    """One Gram matrix of each kind; factored ones are linear, the others RBF."""
    import scipy.sparse as sp

    rbf = Kernel("rbf", gamma=gamma)
    if kind == "full":
        return dualgap.make_gram(X, rbf, kind="full")
    if kind == "cached":
        return dualgap.make_gram(X, rbf, kind="cached")
    if kind == "small cache":
        return dualgap.make_gram(X, rbf, kind="cached", cache_size=7.5 * X.shape[0] * 8 / 1e6)
    if kind == "element":
        return dualgap.make_gram(X, rbf, kind="cached", cache="element", cache_size=0.05)
    if kind == "factored":
        # Away from the origin: a half-space through it would make the one-class optimum exactly 0.
        return dualgap.factored_gram(X + 2.0)
    if kind == "precomputed":
        return dualgap.make_gram(dualgap.make_gram(X, rbf, kind="full").matrix.copy(), Kernel("precomputed"))
    if kind == "float32":
        return dualgap.make_gram(X.astype(np.float32), rbf, kind="cached")
    if kind == "sparse":
        return dualgap.make_gram(sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)), rbf, kind="cached")
    return Plain(dualgap.make_gram(X, rbf, kind="full").matrix)


def problem(row, kind="full", *, n=60, seed=0, bias=True, functions=0, **parameters):
    """One problem; `functions` semi-parametric columns (a trend, a wave, ...)."""
    X, y, t = data(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    if kind == "factored":  # labels a linear kernel can tell apart; without a margin nu_svc's optimum is exactly 0
        y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    phi = None
    if functions:
        # A trend is itself linear: with a linear kernel it would take all of the margin, free of charge.
        trend = X[:, 0] if kind != "factored" else np.cos(3 * X[:, 0])
        phi = np.column_stack([trend, np.sin(3 * X[:, 1]), *(rng.normal(size=n) for _ in range(functions))])
        phi = phi[:, :functions]
    # A larger nu asks for sums that the functions' F'a = 0 does not allow.
    nu = 0.3 if functions else 0.6
    settings = {"C": 0.1 if row == "svdd" else 2.0, "nu": nu, **parameters}
    return build(row, gram(kind, X), target(row, y, t), bias=bias, parametric=phi, **settings)


def has_model_without_bias(row):
    """Outlier models are nothing without their threshold."""
    return FORMULATIONS[row].task != "outlier"

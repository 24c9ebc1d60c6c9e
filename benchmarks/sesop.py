"""Table 3 of the SESOP paper: iterations (two products each) and time to a gradient of 1e-5 and to a settled error.

    DUALGAP_DATA=... python benchmarks/sesop.py choose            C and eps by validation, for every set
    DUALGAP_DATA=... python benchmarks/sesop.py table SET...      the table

Samples are split at random (seed 0) into the paper's numbers of training and validation samples. Features are divided
by their largest absolute value. internet_ads is a part of the UCI set (1966 of 3279 samples); gisette is not to be had.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import scipy.sparse as sp

from dualgap.datasets import find, load
from dualgap.minimization import minimize_composite
from dualgap.primal import primal_svm

# Training and validation samples, and (C, eps) as `choose` found them.
SETS = {
    "arcene": (50, (1.0, 0.1)),
    "dexter": (150, (1.0, 0.1)),
    "internet_ads": (655, (1.0, 0.1)),
    "dorothea": (400, (1.0, 0.1)),
    "madelon": (500, (1.0, 0.1)),
}
METHODS = ("sesop0", "sesop1-", "sesop1", "sesop8", "sesop32", "cg_plain", "cg_fast", "tn")
GRID = [(C, eps) for C in (0.1, 1.0, 10.0) for eps in (1.0, 0.1, 0.01)]
# The paper's limit, in iterations of two products.
MOST = 5000
SECONDS = 60.0


def split(name):
    """Training and validation parts, scaled."""
    data = load(find(name))
    X, y = sp.csr_matrix(data.X), data.y
    largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
    X = sp.csr_matrix(X @ sp.diags(1.0 / np.where(largest > 0, largest, 1.0)))
    if X.nnz > 0.4 * X.shape[0] * X.shape[1]:
        X = X.toarray()
    order = np.random.default_rng(0).permutation(len(y))
    n = SETS[name][0]
    train, valid = np.sort(order[:n]), np.sort(order[n : 2 * n])
    return X[train], y[train], X[valid], y[valid]


def error(x, X, y):
    return float(np.mean(np.where(X @ x[:-1] + x[-1] >= 0, 1.0, -1.0) != y))


def choose(names):
    for name in names:
        X, y, Xv, yv = split(name)
        for C, eps in GRID:
            found = minimize_composite(primal_svm(X, y, C, eps=eps), method="sesop8", tol=1e-2, time_limit=8.0)
            rate = error(found.x, Xv, yv)
            print(f"{name} C={C} eps={eps}: validation error {100 * rate:.1f} %, {found.nit} iterations", flush=True)


class Watch:
    """Validation errors along a run, and the paper's limit; the time they take is not the solver's."""

    def __init__(self, X, y, most):
        self.X, self.y, self.most, self.spent, self.lines = X, y, most, 0.0, []

    def __call__(self, step):
        started = time.perf_counter()
        self.lines.append((step.n_products / 2, step.seconds - self.spent, error(step.x, self.X, self.y)))
        self.spent += time.perf_counter() - started
        return step.n_products >= 2 * self.most

    def settled(self):
        """The first line from which on the error stays within one sample of the last."""
        last = self.lines[-1][2]
        off = [abs(line[2] - last) > 1.5 / len(self.y) for line in self.lines]
        return self.lines[len(off) - off[::-1].index(True) if any(off) else 0]


def table(names, methods=METHODS, seconds=SECONDS):
    print("| data | method | iterations | time | good results: iterations | time | error |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        X, y, Xv, yv = split(name)
        C, eps = SETS[name][1]
        problem = primal_svm(X, y, C, eps=eps)
        for method in methods:
            watch = Watch(Xv, yv, 40_000 if method == "tn" else MOST)  # the paper lets TN run on
            found = minimize_composite(
                problem, method=method, tol=1e-5, max_iter=-1, time_limit=seconds, callback=watch
            )
            settled = watch.settled()
            done = f"{found.n_products / 2:.0f}" if found.success else f"- ({found.gradient_norm:.0e})"
            print(
                f"| {name} (C={C:g}, eps={eps:g}) | {method} | {done} | {found.seconds - watch.spent:.2f} | "
                f"{settled[0]:.0f} | {settled[1]:.2f} | {100 * watch.lines[-1][2]:.1f} % |",
                flush=True,
            )


if __name__ == "__main__":
    {"choose": choose, "table": table}[sys.argv[1]](sys.argv[2:] or list(SETS))

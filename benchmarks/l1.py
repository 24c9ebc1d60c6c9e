"""L1-SVMs against their peers: the full linear program by HiGHS, and LIBLINEAR's solver 5.

    DUALGAP_DATA=... OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/l1.py hinge [SET...]
    DUALGAP_DATA=... OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/l1.py squared_hinge [SET...]

Features are divided by their largest absolute value, C = 1, news20 is class 1 against the rest; internet_ads is a part
of the UCI set (1966 of 3279 samples). Times are CPU seconds of one thread, ours (the least of REPEATS) and the peer's
one after the other; the load of the machine stands beside them. LIBLINEAR counts at the loosest of its tolerances that
brings its objective within 1e-6 of the optimum; the bias is free for the hinge, and penalised, as LIBLINEAR has it, for
the squared hinge.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from dualgap.datasets import find, load
from dualgap.l1svm import solve_l1_svm

SETS = ("arcene", "dexter", "dorothea", "madelon", "internet_ads", "a9a", "news20", "reuters")
C = 1.0
REPEATS = 2
# The full program is stopped after this; its time is then a lower bound.
SECONDS = 300.0
# LIBLINEAR's sweeps at most; where they end first, its time is a lower bound and its excess says so.
SWEEPS = 3000
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
CLOSE = 1e-6


def data(name):
    raw = load(find(name))
    X, y = sp.csr_matrix(raw.X), raw.y
    if name == "news20":
        y = np.where(y == 1, 1.0, -1.0)
    largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
    X = sp.csr_matrix(X @ sp.diags(1.0 / np.where(largest > 0, largest, 1.0)))
    return (X.toarray() if X.nnz > 0.4 * X.shape[0] * X.shape[1] else X), np.asarray(y, dtype=np.float64)


def timed(call):
    began = time.process_time()
    answer = call()
    return time.process_time() - began, answer


def full_program(X, y):
    """Objective and number of features of the whole linear program."""
    n, d = X.shape
    Z = sp.diags(y) @ sp.csr_matrix(X)
    A = sp.hstack([-Z, Z, sp.csr_matrix(-y[:, None]), -sp.eye(n)], format="csc")
    cost = np.concatenate([np.ones(2 * d), [0.0], np.full(n, C)])
    bounds = np.array([(0.0, np.inf)] * (2 * d) + [(-np.inf, np.inf)] + [(0.0, np.inf)] * n)
    answer = linprog(cost, A_ub=A, b_ub=-np.ones(n), bounds=bounds, method="highs", options={"time_limit": SECONDS})
    if answer.status != 0:
        return np.nan, 0
    return answer.fun, int(np.count_nonzero(answer.x[:d] - answer.x[d : 2 * d]))


def liblinear(X, y, tol):
    from sklearn.svm import LinearSVC

    model = LinearSVC(penalty="l1", loss="squared_hinge", dual=False, C=C, tol=tol, max_iter=SWEEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, _ = timed(lambda: model.fit(X, y))
    w, b = model.coef_[0], float(model.intercept_[0])
    slack = np.maximum(1.0 - y * (X @ w + b), 0.0)
    return seconds, np.abs(w).sum() + abs(b) + C * float(slack @ slack), int(np.count_nonzero(w))


def hinge(name, X, y):
    ours = [timed(lambda: solve_l1_svm(X, y, C, loss="hinge", gap_tol=1e-9)) for _ in range(REPEATS)]
    theirs = timed(lambda: full_program(X, y))
    seconds, result = min(ours, key=lambda pair: pair[0])
    return seconds, theirs[0], result, theirs[1][0], theirs[1][1], "highs"


def squared_hinge(name, X, y):
    ours = [timed(lambda: solve_l1_svm(X, y, C, loss="squared_hinge", bias="penalised")) for _ in range(REPEATS)]
    seconds, result = min(ours, key=lambda pair: pair[0])
    for tol in TOLERANCES:
        theirs, value, used = liblinear(X, y, tol)
        if value <= result.certificate.primal * (1.0 + CLOSE) or theirs > 20.0:
            break
    return seconds, theirs, result, value, used, f"tol={tol:g}"


def main():
    loss, names = sys.argv[1], sys.argv[2:] or SETS
    rng = np.random.default_rng(0)
    small, labels = rng.normal(size=(40, 5)), np.where(np.arange(40) % 2, 1.0, -1.0)
    for matrix in (small, sp.csr_matrix(small * (rng.random(small.shape) < 0.1))):
        solve_l1_svm(matrix, labels, loss=loss)  # compiles
    ratios = []
    for name in names:
        X, y = data(name)
        measure = hinge if loss == "hinge" else squared_hinge
        ours, theirs, result, value, used, how = measure(name, X, y)
        ratios.append(theirs / ours)
        certificate = result.certificate
        print(
            f"| {name} | {X.shape[0]} x {X.shape[1]} | {certificate.primal:.9g} | {certificate.relative_gap:.0e} "
            f"| {np.count_nonzero(result.coef)} | {ours:.3f} | {theirs:.3f} | {how} "
            f"| {value / certificate.primal - 1:.0e} | {used} | {theirs / ours:.1f} | {os.getloadavg()[0]:.1f} |",
            flush=True,
        )
    print(f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()

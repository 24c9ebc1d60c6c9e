"""Hinge loss on standardised covtype (581 012 x 54): dualgap to a certified gap of 1e-6 beside LIBLINEAR.

    python benchmarks/covtype_hinge.py [--passes 100] [--costs 0.1 10 1000]

Prints a Markdown table: dualgap without an intercept and with an exact one (no penalty), seconds and certified gaps,
the median of three fits; and LIBLINEAR (of scikit-learn, no intercept) stopped after so many passes, with the gap
of its weights to the certified dual objective. The set comes from the folder that DUALGAP_DATA names.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

from dualgap import LinearSVC
from dualgap.bench.linear_data import read_data
from dualgap.bench.linear_problems import LinearMachine
from dualgap.bench.linear_scoring import primal_objective

GAP, REPEAT = 1e-6, 3


def ours(X, y, C, *, intercept):
    """Seconds of a fit, and its certificate."""
    times = []
    for _ in range(REPEAT):
        model = LinearSVC(
            loss="hinge", C=C, fit_intercept=intercept, penalize_intercept=False, gap_tol=GAP, max_iter=-1, n_jobs=-1
        )
        begin = time.perf_counter()
        model.fit(X, y)
        times.append(time.perf_counter() - begin)
    return statistics.median(times), model.certificate_


def liblinear(X, y, C, passes, dual):
    """Seconds of its fit, and the relative distance of its objective from a dual one."""
    model = svm.LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=GAP, max_iter=passes)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    seconds = time.perf_counter() - begin
    primal = primal_objective(X, y, LinearMachine("hinge", C), model.coef_[0], 0.0)
    return seconds, (primal - dual) / primal


def main() -> None:
    parser = argparse.ArgumentParser(description="Hinge loss on covtype beside LIBLINEAR.")
    parser.add_argument("--passes", type=int, default=100, help="after which LIBLINEAR is stopped")
    parser.add_argument("--costs", type=float, nargs="+", default=[0.1, 10.0, 1000.0])
    arguments = parser.parse_args()
    X, y = read_data("covtype", False)
    ours(X[:2000], y[:2000], 1.0, intercept=False)  # compiles
    ours(X[:2000], y[:2000], 1.0, intercept=True)
    print(f"| C | dualgap | gap | exact bias | gap | LIBLINEAR, {arguments.passes} passes | its gap |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for C in arguments.costs:
        plain, proof = ours(X, y, C, intercept=False)
        exact, other = ours(X, y, C, intercept=True)
        seconds, missed = liblinear(X, y, C, arguments.passes, proof.dual)
        print(
            f"| {C:g} | {plain:.2f} s | {proof.relative_gap:.1e} | {exact:.2f} s | {other.relative_gap:.1e} "
            f"| {seconds:.1f} s | {missed:.2g} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""What a search over C and gamma costs with and without shared kernel rows: usps, 3 against 8.

    DUALGAP_DATA=... python benchmarks/search_cost.py                # all threads, by the clock
    DUALGAP_DATA=... python benchmarks/search_cost.py --threads 1    # one thread

Five folds, eight values of C, four of gamma: `SVCSearchCV` beside scikit-learn's `GridSearchCV` around the same `SVC`,
in turn, and what both choose.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import dualgap
from dualgap.datasets import find, load

GRID = {"C": np.geomspace(0.1, 300.0, 8), "gamma": np.geomspace(1e-3, 3e-2, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    data = load(find("usps"))
    digits = np.isin(data.y, (4.0, 9.0))  # labels are the digits plus one
    X, y = np.ascontiguousarray(data.X.toarray()[digits]), data.y[digits]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    machine = dualgap.SVC(n_jobs=asked.threads)
    ways: dict[str, Any] = {
        "GridSearchCV": GridSearchCV(machine, GRID, cv=folds),
        "SVCSearchCV": dualgap.SVCSearchCV(machine, Cs=GRID["C"], gammas=GRID["gamma"], cv=folds, n_jobs=asked.threads),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(asked.repeat + 1):  # the first run loads compiled code
        for name, way in ways.items():
            began = time.perf_counter()
            way.fit(X, y)
            if repeat > 0:
                times[name].append(time.perf_counter() - began)
    for what, of in (("least", min), ("median", median)):
        alone, shared = of(times["GridSearchCV"]), of(times["SVCSearchCV"])
        print(f"{what:7} GridSearchCV {alone:.3f} s, SVCSearchCV {shared:.3f} s, ratio {alone / shared:.2f}")
    for name, way in ways.items():
        print(f"{name:13} chose {way.best_params_}, accuracy {way.best_score_:.5f}")


if __name__ == "__main__":
    main()

"""C and eps for the SESOP paper's table 3, by validation; the table itself is `dualgap reproduce sesop`.

DUALGAP_DATA=... python benchmarks/sesop.py SET...
"""

from __future__ import annotations

import sys

from dualgap.minimization import minimize_composite
from dualgap.primal import primal_svm
from dualgap.reproduce.sesop_runs import TRAINING, error_rate, split

GRID = [(C, eps) for C in (0.1, 1.0, 10.0) for eps in (1.0, 0.1, 0.01)]


def choose(names):
    for name in names:
        X, y, Xv, yv = split(name)
        for C, eps in GRID:
            found = minimize_composite(primal_svm(X, y, C, eps=eps), method="sesop8", tol=1e-2, time_limit=8.0)
            rate = error_rate(found.x, Xv, yv)
            print(f"{name} C={C} eps={eps}: validation error {100 * rate:.1f} %, {found.nit} iterations", flush=True)


if __name__ == "__main__":
    choose(sys.argv[1:] or list(TRAINING))

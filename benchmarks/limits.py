"""The table of docs/long-runs.md: what every solver takes after its time limit, and after Ctrl-C.

    DUALGAP_DATA=... python benchmarks/limits.py [--limit 2] [--rows N] [--solvers smo,ipm]

Each solver gets a process of its own, one thread, all rows of ijcnn1 (49 990 x 22) and a goal it will hardly reach. It
is run twice: once with a time limit, once without one but with a Ctrl-C after as many seconds and
``on_interrupt="keep"``. What is counted are the processor seconds that the process uses from that moment to its answer,
the certificate included, so that other work on the machine does not count. `minimize` certifies nothing and leaves
Ctrl-C to Python, which is why its solvers have no second figure.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

import dualgap
from dualgap.datasets import find, load
from dualgap.solvers import COMPOSITE_SOLVERS, SOLVERS

# What each takes where that is not the C-SVC with RBF kernel and bias: the row, the kernel, the bias, and rows at most.
TAKES = {
    "ipm": ("c_svc", "rbf", True, 5000),
    "adatron": ("c_svc", "rbf", False, None),
    "sor": ("c_svc", "rbf", False, None),
    "dcd": ("c_svc", "linear", False, None),
    "newton": ("c_svc", "linear", True, None),
    "pegasos": ("c_svc", "linear", False, None),
    "pcd": ("squared_hinge", "linear", False, None),
}
C, GAMMA, GOAL = 10.0, 1.0, 1e-13
# Rows of a first run, which compiles.
FIRST = 400
# A run that has not ended after so many seconds more is given up.
PATIENCE = 120.0


def problem_for(name, X, y):
    row, kernel, bias, most = TAKES.get(name, ("c_svc", "rbf", True, None))
    # Of few rows, too, a matrix that is not stored: what is compiled for it is what many rows need.
    gram = dualgap.make_gram(X[:most], dualgap.Kernel(kernel, gamma=GAMMA), kind="cached", n_jobs=1)
    return dualgap.build(row, gram, y[:most], C=C, bias=bias)


def solved(name, problem, **settings):
    """Status and relative gap."""
    result = dualgap.solve(problem, name, gap_tol=GOAL, warn=False, **settings)
    return result.status.name, result.certificate.relative_gap


def minimised(name, X, y, limit):
    loss = {"name": "logistic", "y": y, "C": 1e4}
    found = dualgap.minimize(loss, X, "l2", method=name, tol=1e-300, max_iter=10**9, time_limit=limit)
    return found.message.split(";")[0], float("nan")


def answer_of(task, limit, *, interrupt):
    """What a task returns in a process of its own, and the processor seconds it takes from `limit` on."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        # Shells start what runs in the background with Ctrl-C ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            told = task()
            os.write(writing, json.dumps(told).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    time.sleep(limit)
    times = psutil.Process(pid).cpu_times()
    before = times.user + times.system
    if interrupt:
        os.kill(pid, signal.SIGINT)
    began = time.monotonic()
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > PATIENCE:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    told = json.loads(text) if text else [f"exit {os.waitstatus_to_exitcode(status)}", float("nan")]
    return told, max(0.0, usage.ru_utime + usage.ru_stime - before)


def row_of(name, X, y, limit):
    """A line of the table."""
    if name in COMPOSITE_SOLVERS:
        minimised(name, X[:FIRST], y[:FIRST], 0.2)
        (status, _), late = answer_of(lambda: minimised(name, X, y, limit), limit, interrupt=False)
        return f"| `{name}` | logistic loss | {late:.2f} | | {status} |"
    solved(name, problem_for(name, X[:FIRST], y[:FIRST]), time_limit=0.5)
    problem = problem_for(name, X, y)
    (status, gap), late = answer_of(lambda: solved(name, problem, time_limit=limit), limit, interrupt=False)
    _, later = answer_of(lambda: solved(name, problem, on_interrupt="keep"), limit, interrupt=True)
    row, kernel, _, most = TAKES.get(name, ("c_svc", "rbf", True, None))
    what = f"{row}, {kernel}" + (f", {most} rows" if most else "")
    return f"| `{name}` | {what} | {late:.2f} | {later:.2f} | {status}, {gap:.1e} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=2.0)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--solvers", default=",".join([*SOLVERS, *COMPOSITE_SOLVERS]))
    asked = parser.parse_args()
    data = load(find("ijcnn1"))
    X, y = np.ascontiguousarray(data.X.toarray()[: asked.rows]), np.where(data.y[: asked.rows] > 0, 1.0, -1.0)
    print(
        f"| solver ({X.shape[0]} rows) | problem | after a limit of {asked.limit:g} s | after Ctrl-C | ended as, gap |"
    )
    print("|---|---|---|---|---|", flush=True)
    with threadpool_limits(1):
        for name in asked.solvers.split(","):
            print(row_of(name, X, y, asked.limit), flush=True)


if __name__ == "__main__":
    main()

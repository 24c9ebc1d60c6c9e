"""Run as a script: solves a long problem again and again in forked children, and ends them in every way there is.

Prints one JSON object that `test_checkpoint.py` looks at. Forking pays for the imports and the compiled code once.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from processor import processor_seconds

import dualgap
from dualgap import checkpoint
from dualgap.checkpoint import Checkpoint
from dualgap.fingerprint import problem_fingerprint

KILLS = 60


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=500) > 0, 1.0, -1.0)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=2.0), n_jobs=1)
    return dualgap.build("c_svc", gram, y, C=1e4)


def child(path, every=0.0):
    """A process that is at work on the problem, which takes it minutes."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            dualgap.solve(problem(), "smo", gap_tol=1e-12, warn=False, checkpoint=path, checkpoint_every=every)
            code = 0
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    return pid


def ended(pid):
    """The exit status as `subprocess` counts it, and the processor's seconds that it took to come."""
    used = processor_seconds(pid)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime - used


def between_writings(folder):
    """Seconds from one writing to the next on this machine, at this moment."""
    path, settings = Path(folder, "trial.ckpt"), {"warn": False, "checkpoint_every": 0.0}
    result = dualgap.solve(problem(), "smo", gap_tol=1e-12, max_iter=2500, checkpoint=path, **settings)
    return result.seconds / len(result.history)


def killed(folder, mine):
    """Kill a run again and again, each going on from what the last one left."""
    path, chance = Path(folder, "killed.ckpt"), random.Random(0)
    apart = between_writings(folder)
    told = {"absent": 0, "iterations": [0], "leftovers": 0, "codes": [], "apart": apart}
    for _ in range(KILLS):
        pid = child(path)
        time.sleep(chance.uniform(0.0, min(0.25, 0.02 + 5.0 * apart)))
        os.kill(pid, signal.SIGKILL)
        told["codes"].append(ended(pid)[0])
        told["leftovers"] += len(list(Path(folder).glob(".*.tmp")))
        if not path.exists():
            told["absent"] += 1
            continue
        state = Checkpoint(path, mine).slot(0).earlier  # raises where the file is broken
        told["iterations"].append(int(state.counts[0]))
    told["left_at_the_end"] = len(list(Path(folder).glob(".*.tmp")))
    result = dualgap.solve(problem(), "block", gap_tol=1e-4, checkpoint=path)
    told["dual"], told["status"], told["events"] = result.certificate.dual, result.status.name, len(result.history)
    return told


def signalled(folder, mine, number):
    """Ask a run to stop, long before the next writing is due."""
    path = Path(folder, f"{number}.ckpt")
    pid = child(path, every=1000.0)
    time.sleep(0.3)
    os.kill(pid, number)
    code, took = ended(pid)
    state = Checkpoint(path, mine).slot(0).earlier
    return {"code": code, "took": took, "iterations": int(state.counts[0]), "seconds": state.seconds}


def main():
    folder = sys.argv[1]
    checkpoint._SHARE = 1e9  # write after every chunk, so that many kills fall into the middle of it
    cold = dualgap.solve(problem(), "block", gap_tol=1e-4)
    dualgap.solve(problem(), "smo", max_iter=100, warn=False)
    mine = problem_fingerprint(problem())
    told = {"cold": cold.certificate.dual, "killed": killed(folder, mine)}
    told |= {number.name: signalled(folder, mine, number) for number in (signal.SIGINT, signal.SIGTERM)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()

"""Run as a script in a mount namespace of its own: a checkpoint on a file system that fills up meanwhile."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

import dualgap
from dualgap import checkpoint


def main():
    folder = Path(sys.argv[1])
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True).returncode:
        print(json.dumps({"skipped": "mounting a file system is not permitted here"}))
        return
    checkpoint._SHARE = 1e9
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0, 1.0, -1.0)
    path, ballast = folder / "run.ckpt", folder / "ballast"
    sizes = []

    def fill(event):
        if path.exists() and not ballast.exists():
            free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            ballast.write_bytes(b"x" * max(0, free - 4096))  # one page is left, and a checkpoint takes more
        sizes.append(path.stat().st_size if path.exists() else 0)

    def problem():
        return dualgap.build("c_svc", dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=1.0)), y, C=100.0)

    settings = {"solver": "smo", "gap_tol": 1e-6, "checkpoint": path, "checkpoint_every": 0.0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dualgap.solve(problem(), callback=fill, **settings)
    full = {
        "status": result.status.name,
        "warnings": [str(one.message) for one in caught],
        "files": sorted(os.listdir(folder)),
        "size": path.stat().st_size,
        "first": next(size for size in sizes if size),
    }
    ballast.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = dualgap.solve(problem(), **settings)
    print(json.dumps(full | {"again": again.status.name, "events": [len(result.history), len(again.history)]}))


if __name__ == "__main__":
    main()

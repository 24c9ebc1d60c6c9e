"""What a path of 20 values of C on ijcnn1 costs, beside its dearest single fit.

    DUALGAP_DATA=... python benchmarks/path_cost.py                  # two threads, by the clock
    DUALGAP_DATA=... python benchmarks/path_cost.py --threads 1      # one thread, processor seconds
    DUALGAP_DATA=... python benchmarks/path_cost.py --events mixed   # with a callback, as the command line has one

RBF kernel with gamma 1, C from 0.1 to 1000, relative gap 1e-3 for every value. Path and fits take turns; the ratios are
those of the least times and of the medians.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

import dualgap
from dualgap.datasets import find, load

GAP, VALUES = 1e-3, np.geomspace(0.1, 1000.0, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--events", choices=["none", "ordered", "mixed"], default="none", help="told to a callback")
    asked = parser.parse_args()
    watched = {} if asked.events == "none" else {"callback": lambda _: None, "mixed_events": asked.events == "mixed"}
    clock = time.process_time if asked.threads == 1 else time.perf_counter
    data = load(find("ijcnn1"))
    X = np.ascontiguousarray(data.X.toarray() if hasattr(data.X, "toarray") else data.X)

    def seconds(values: object) -> float:
        began = clock()
        found = dualgap.svm_path(X, data.y, values, gamma=1.0, gap_tol=GAP, n_jobs=asked.threads, **watched)  # type: ignore[arg-type]
        took = clock() - began
        if found.relative_gaps.max() > GAP:
            raise SystemExit(f"a value ended with a gap of {found.relative_gaps.max():.1e}")
        return took

    seconds(VALUES[:3])  # compiles, or loads what is compiled
    paths: list[float] = []
    fits: list[list[float]] = [[] for _ in VALUES]
    for _ in range(asked.repeat):
        paths.append(seconds(VALUES))
        for C, times in zip(VALUES, fits, strict=True):
            times.append(seconds([C]))
    for name, typical in (("least", min), ("median", median)):
        single = [typical(times) for times in fits]
        dearest = int(np.argmax(single))
        path = typical(paths)
        print(
            f"{name:7s} path {path:.3f} s, dearest fit {single[dearest]:.3f} s (C={VALUES[dearest]:.3g}), "
            f"ratio {path / single[dearest]:.2f}"
        )


if __name__ == "__main__":
    main()

"""Reference figures of NOTES.md: fits by `smo` and predictions beside scikit-learn's SVC, certified, in one process.

    DUALGAP_DATA=... python benchmarks/reference.py [small] [predict] [real] [hard]

Compiled code is loaded before any clock starts. Small fits are medians of 300, predictions of 3, the rest single runs.
"""

import subprocess
import sys
import time

import numpy as np
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_iris

import dualgap
from dualgap.datasets import find, load


def ours(**settings):
    """The reference solver, whatever "auto" would choose."""
    return dualgap.SVC(solver="smo", **settings)


PAIR = (ours, sklearn.svm.SVC)


def timed(action, times=1):
    """The median time of an action and its last result."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        result = action()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken)), result


def small():
    X, y = load_iris(return_X_y=True)
    for name, labels in (("iris, three pairs", y), ("iris, two classes", y > 0)):
        mine, theirs = (timed(lambda make=make, t=labels: make().fit(X, t), 300)[0] for make in PAIR)
        print(f"fit {name}: {mine * 1e3:.2f} ms, scikit-learn {theirs * 1e3:.2f} ms")
    for name, code in (
        ("import dualgap", "import dualgap"),
        ("first fit", "from dualgap import SVC; X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]"),
    ):
        last = "SVC().fit(X, y)" if name == "first fit" else ""
        head, body = (code, last) if last else ("", code)
        script = f"import time; {head}\nt = time.perf_counter(); {body}\nprint(time.perf_counter() - t)"
        runs = [float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(3)]
        print(f"{name} in a new process: {np.median(runs):.3f} s (median of 3)")


def predict():
    rng = np.random.default_rng(0)
    for vectors, rows, d in (
        (1000, 1000, 5),
        (1000, 1000, 50),
        (1000, 1000, 500),
        (5000, 5000, 20),
        (3000, 20000, 100),
    ):
        X, y, new = rng.normal(size=(vectors, d)), rng.integers(0, 2, vectors), rng.normal(size=(rows, d))
        for kernel in ("rbf", "poly", "sigmoid", "linear"):
            settings = {"kernel": kernel, "C": 0.1, "gamma": 1.0 / d, "tol": 0.1}
            models = [make(**settings).fit(X, y) for make in PAIR]
            mine, theirs = (timed(lambda m=m, new=new: m.decision_function(new), 3)[0] for m in models)
            print(f"predict {kernel} {vectors} x {rows}, {d} features: {mine:.4f} s, ratio {theirs / mine:.1f}")


def report(name, X, y, **settings):
    for make in PAIR:
        taken, model = timed(lambda make=make: make(**settings).fit(X, y))
        answered, _ = timed(lambda model=model: model.predict(X[:10000]))
        proof = getattr(model, "certificate_", "no certificate")
        whose = type(model).__module__.split(".")[0]
        print(f"{name} {whose}: fit {taken:.1f} s, {int(model.n_iter_.sum())} iterations, "
              f"{len(model.support_)} support vectors, predict {min(len(y), 10000)} rows {answered:.2f} s; {proof}",
              flush=True)  # fmt: skip


def real():
    for name, C, gamma, dense in (("ijcnn1", 32, 2.0, True), ("a9a", 1, 0.0081, False)):
        data = load(find(name))
        report(name, data.X.toarray() if dense else data.X, data.y, C=C, gamma=gamma)


def hard():
    X, y = load_breast_cancer(return_X_y=True)
    report("breast cancer, unscaled, linear, C=1", X, y, kernel="linear", C=1.0)


if __name__ == "__main__":
    dualgap.SVC().fit(np.eye(4), [0, 1, 0, 1])
    for part in sys.argv[1:] or ("small", "predict", "real", "hard"):
        {"small": small, "predict": predict, "real": real, "hard": hard}[part]()

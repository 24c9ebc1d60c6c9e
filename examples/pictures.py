"""Draw one picture of each kind into docs/pictures: convergence, path, margins, boundary, search, and a report.

Needs matplotlib (``pip install 'dualgap[report]'``); the picture of the report needs Chromium or Chrome as well. With
the folder of data sets in DUALGAP_DATA the data is ijcnn1 and Rätsch's banana, without it data sets of scikit-learn.
"""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import dualgap

OUT = Path("docs/pictures")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# What the README shows of a report: the headline, the certificate and the first charts.
WINDOW = (1100, 1010)


def samples(count: int) -> tuple[Any, Any, str]:
    """Samples with labels, and what to call them."""
    folder = os.environ.get("DUALGAP_DATA")
    if folder is None:
        X, y = load_breast_cancer(return_X_y=True)
        return StandardScaler().fit_transform(X)[:count], y[:count], "breast cancer"
    data = dualgap.datasets.load(Path(folder) / "ijcnn1.svm.xz")
    # Neighbours are alike in ijcnn1, which is a series in time: one in so many is a better picture of it.
    some = slice(None, None, data.X.shape[0] // count)
    return data.X[some].toarray()[:count], data.y[some].astype(int)[:count], f"ijcnn1, {count:,} samples"


def plane() -> tuple[Any, Any, str]:
    """Samples of two features."""
    folder = os.environ.get("DUALGAP_DATA")
    if folder is None:
        return *make_moons(400, noise=0.25, random_state=0), "moons"
    data = dualgap.datasets.load(Path(folder) / "ratsch-banana.svm.xz")
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return X[:300], data.y[:300].astype(int), "banana, 300 samples"


def save(display: Any, name: str, title: str) -> None:
    """Write a figure, under the same name and with the same bytes every time it is the same."""
    import matplotlib as mpl

    if title:
        display.figure_.suptitle(title, fontsize=11, color="#333333")
    with mpl.rc_context({"svg.hashsalt": "dualgap", "svg.fonttype": "none"}):
        display.figure_.savefig(OUT / name, metadata={"Date": None}, facecolor="white")
    print(f"{OUT / name}: {(OUT / name).stat().st_size / 1000:.0f} kB")


def convergence(X: Any, y: Any, title: str) -> None:
    solvers = ("block", "smo", "decomposition", "ipm")
    # Twice: the first run of a solver compiles it.
    models = {name: dualgap.SVC(C=10, gap_tol=1e-8, solver=name).fit(X, y).fit(X, y) for name in solvers}
    display = dualgap.ConvergenceDisplay.from_estimators(models)
    display.ax_.set_xscale("log")
    save(display, "convergence.svg", title)


def path(X: Any, y: Any, title: str) -> None:
    found = dualgap.svm_path(X, y, np.geomspace(0.01, 1000, 16), gap_tol=1e-6, cv=5)
    save(dualgap.PathDisplay.from_path(found), "path.svg", title)


def margins(X: Any, y: Any, title: str) -> None:
    inside, outside, own, other = train_test_split(X, y, test_size=0.4, random_state=0)
    model = dualgap.SVC(C=10, gap_tol=1e-6).fit(inside, own)
    save(dualgap.MarginDisplay.from_estimator(model, outside, other), "margins.svg", f"{title}, held out")


def boundary() -> None:
    X, y, title = plane()
    model = dualgap.SVC(C=3, gap_tol=1e-6).fit(X, y)
    save(dualgap.MarginDisplay.from_estimator(model, X, y, kind="boundary"), "boundary.svg", title)


def search(X: Any, y: Any, title: str) -> None:
    Cs, gammas = np.geomspace(0.1, 1000, 5), np.geomspace(0.01, 10, 7)
    found = dualgap.SVCSearchCV(dualgap.SVC(), Cs=Cs.tolist(), gammas=gammas.tolist()).fit(X, y)
    save(dualgap.SearchDisplay.from_search(found), "search.svg", title)


def report(X: Any, y: Any, title: str) -> None:
    """A report as a browser shows it."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print("no picture of a report: neither Chromium nor Chrome is installed")
        return
    inside, outside, own, other = train_test_split(X, y, test_size=0.4, random_state=0)
    model = dualgap.SVC(C=10, gap_tol=1e-6).fit(inside, own)
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "report.html", Path(folder) / "report.png"
        dualgap.report(model, page, outside, other, title=f"SVC on {title}")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        size = "--window-size={},{}".format(*WINDOW)
        command = [browser, *options, size, f"--screenshot={picture}", page.as_uri()]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        if not picture.exists():
            print(f"no picture of a report: {browser} ended with {done.returncode}")
            return
        (OUT / "report.png").write_bytes(small(picture))
    print(f"{OUT / 'report.png'}: {(OUT / 'report.png').stat().st_size / 1000:.0f} kB")


def small(picture: Path) -> bytes:
    """A screenshot in few colours, which text and lines do not miss."""
    from PIL import Image

    out = io.BytesIO()
    with Image.open(picture) as image:
        image.convert("RGB").quantize(64).save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        print("pictures need matplotlib: pip install 'dualgap[report]'")
        return
    import matplotlib as mpl

    mpl.use("Agg")
    OUT.mkdir(parents=True, exist_ok=True)
    X, y, title = samples(5000)
    few = samples(1000)
    convergence(*few)
    path(*few)
    search(*few)
    boundary()
    margins(X, y, title)
    report(X, y, title)


if __name__ == "__main__":
    main()

"""Machines on rows that are not in memory: the same solutions, certificates that hold, memory that is bounded."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning

import dualgap
from dualgap import Status, solve_streamed, stream_blocks, stream_libsvm, stream_rows
from dualgap.datasets import DataFileError

LOSSES = {
    "c_svc": lambda f, y, C, eps: C * np.maximum(0, 1 - y * f).sum(),
    "squared_hinge": lambda f, y, C, eps: C * (np.maximum(0, 1 - y * f) ** 2).sum(),
    "eps_svr": lambda f, y, C, eps: C * np.maximum(0, np.abs(y - f) - eps).sum(),
    "squared_eps_svr": lambda f, y, C, eps: C * (np.maximum(0, np.abs(y - f) - eps) ** 2).sum(),
}
CASES = [
    ("c_svc", "nearest"),
    ("c_svc", "blocks"),
    ("squared_hinge", "newton"),
    ("squared_hinge", "blocks"),
    ("eps_svr", "nearest"),
    ("eps_svr", "blocks"),
    ("squared_eps_svr", "newton"),
    ("squared_eps_svr", "blocks"),
]


def data(row, n=6000, d=8, kind="dense", seed=0):
    """Sorted by label and by the first feature, which is what pieces of neighbours must survive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 2.0, d) + 0.3
    X[rng.random((n, d)) < 0.3] = 0.0
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    if not row.endswith("svr"):
        y = np.where(y > 0.5, 1.0, -1.0)
    order = np.lexsort((X[:, 0], y))
    X, y = X[order], y[order]
    if kind.endswith("32"):
        X = X.astype(np.float32)
    return (sp.csr_matrix(X) if kind.startswith("csr") else X), y


def objective(row, X, y, result, *, C, eps=0.1, constant=0.0):
    f = X.astype(np.float64) @ result.weights + result.bias
    penalty = result.bias**2 / constant if constant > 0.0 else 0.0
    return 0.5 * (result.weights @ result.weights + penalty) + LOSSES[row](f, y, C, eps)


# -- the same solutions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "dense32", "csr", "csr32"])
@pytest.mark.parametrize(("row", "method"), CASES)
def test_same_optimum_as_in_memory(row, method, kind):
    X, y = data(row, kind=kind)
    blocks = stream_rows(X, memory=1.0)
    assert len(blocks.grouped(np.arange(len(blocks)))) > 1  # it does not fit
    result = solve_streamed(blocks, y, row, C=0.5, constant=2.0, method=method, gap_tol=1e-5)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-5
    # What is certified is the objective of the weights that are returned, and it brackets the optimum.
    assert result.certificate.primal == pytest.approx(objective(row, X, y, result, C=0.5, constant=2.0), rel=1e-10)
    gram = dualgap.kernels.linear_gram.LinearGram(X, 2.0)
    memory = dualgap.solve(dualgap.build(row, gram, y, C=0.5, bias=False), gap_tol=1e-9)
    assert result.certificate.dual <= memory.certificate.primal * (1 + 1e-12)
    assert result.certificate.primal >= memory.certificate.dual * (1 - 1e-12)


@pytest.mark.parametrize(("row", "method"), [case for case in CASES if case[1] != "blocks"])
def test_bias_without_penalty(row, method):
    X, y = data(row)
    result = solve_streamed(stream_rows(X, memory=1.0), y, row, C=0.5, bias=True, gap_tol=1e-6)
    assert (result.solver, result.status) == (method, Status.CONVERGED)
    assert result.certificate.primal == pytest.approx(objective(row, X, y, result, C=0.5), rel=1e-10)
    memory = dualgap.solve(dualgap.build(row, dualgap.factored_gram(X), y, C=0.5), gap_tol=1e-9)
    assert result.certificate.dual <= memory.certificate.primal * (1 + 1e-12)
    assert result.certificate.primal == pytest.approx(memory.certificate.primal, rel=2e-6)
    assert result.bias == pytest.approx(float(memory.eta[0]), abs=2e-2)


@pytest.mark.parametrize(("loss", "solver"), [("hinge", "auto"), ("hinge", "dcd"), ("squared_hinge", "auto")])
def test_same_classifier_as_liblinear(loss, solver):
    X, y = data("c_svc", n=4000)
    labels = np.where(X[:, 1] > 1.0, "far", np.where(y > 0, "up", "down"))
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    parameters = {"loss": loss, "C": 0.3, "class_weight": {"far": 2.0}}
    rows = stream_rows(X, labels, memory=1.0)
    model = dualgap.LinearSVC(**parameters, gap_tol=1e-8, solver=solver, max_iter=-1).fit(rows, sample_weight=weight)
    peer = sklearn.svm.LinearSVC(**parameters, tol=1e-9, max_iter=10**6).fit(X, labels, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=3e-4)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=3e-4)
    assert list(model.classes_) == ["down", "far", "up"]
    # Predictions for rows in memory and for rows that are not.
    assert np.array_equal(model.predict(rows), model.predict(X))
    assert model.score(rows, labels) == model.score(X, labels)


def test_same_regression_as_in_memory():
    X, y = data("eps_svr")
    parameters = {"C": 0.2, "epsilon": 0.3, "penalize_intercept": False, "gap_tol": 1e-8}
    rows = stream_rows(X, y, memory=1.0)
    model, memory = (dualgap.LinearSVR(**parameters).fit(*given) for given in ((rows,), (X, y)))
    np.testing.assert_allclose(model.predict(rows), memory.predict(X), atol=1e-3)
    assert model.certificate_.relative_gap <= 1e-8


@pytest.mark.parametrize("method", ["nearest", "blocks"])
def test_runs_are_repeatable(method):
    X, y = data("c_svc")
    first, second = (
        solve_streamed(stream_rows(X, memory=1.0), y, constant=1.0, method=method, n_jobs=jobs) for jobs in (1, 2)
    )
    assert np.array_equal(first.weights, second.weights)
    assert first.iterations == second.iterations


def test_blocks_on_more_features_than_fit(data_folder):
    """Text: news20 in small batches against the whole of it in memory."""
    d = dualgap.datasets.load(dualgap.datasets.find("news20"), dtype=np.float32)
    y = np.where(d.y <= 10, 1.0, -1.0)
    rows = stream_rows(d.X, memory=3.0)
    result = solve_streamed(rows, y, "c_svc", C=0.01, constant=1.0, gap_tol=1e-4)
    assert result.solver == "blocks"
    assert result.certificate.relative_gap <= 1e-4
    gram = dualgap.kernels.linear_gram.LinearGram(d.X, 1.0)
    memory = dualgap.solve(dualgap.build("c_svc", gram, y, C=0.01, bias=False), gap_tol=1e-6)
    assert result.certificate.dual <= memory.certificate.primal
    assert result.certificate.primal == pytest.approx(memory.certificate.primal, rel=1.1e-4)


# -- sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_text_is_streamed_exactly(tmp_path, compressed):
    X, y = data("c_svc", n=3000, kind="csr")
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    if compressed:
        path = tmp_path / "rows.svm.gz"
        path.write_bytes(gzip.compress((tmp_path / "rows.svm").read_bytes()))
    with stream_libsvm(path, memory=1.0) as rows:
        assert len(rows) == 8
        assert rows.shape == X.shape
        assert rows.dtype == np.float64  # 16 digits are more than float32 has
        assert np.array_equal(rows.y, y)
        batches = [(rows.rows(pieces), matrix) for pieces, matrix in rows.batches(np.arange(len(rows))[::-1])]
        assert sorted(np.concatenate([at for at, _ in batches])) == list(range(3000))
        whole = dualgap.datasets.load(path).X
        for at, matrix in batches:
            assert (matrix != whole[at]).nnz == 0
        model = dualgap.LinearSVC().fit(rows)
        assert model.certificate_.relative_gap <= 1e-4
        assert len(list(tmp_path.glob("dualgap-rows-*"))) == 1
    assert not list(tmp_path.glob("dualgap-rows-*"))  # removed


def test_values_that_float32_holds_take_its_space(tmp_path):
    (tmp_path / "halves.svm").write_text("+1 1:0.5 7:3\n-1 2:-0.25\n" * 3000)
    (tmp_path / "tenths.svm").write_text("+1 1:0.5 7:3\n-1 2:-0.25\n" * 3000 + "+1 1:0.1\n")
    with stream_libsvm(tmp_path / "halves.svm", memory=1.0, n_features=9) as rows:
        assert (rows.dtype, rows.shape) == (np.float32, (6000, 9))
        assert rows.load(np.array([0])).indices.dtype == np.int32
    with stream_libsvm(tmp_path / "tenths.svm", memory=1.0) as rows:
        assert rows.dtype == np.float64
        assert {str(dtype) for dtype in rows.dtypes} == {"float32", "float64"}
        last = rows.load(np.array([0, len(rows) - 1]))
        assert last[-1, 0] == 0.1


def test_matrices_one_after_the_other():
    X, y = data("c_svc", n=2000)
    parts = ((X[at : at + 300], y[at : at + 300]) for at in range(0, 2000, 300))
    with stream_blocks(parts, memory=1.0) as rows:
        joined = sp.vstack([rows.load(np.array([piece])) for piece in range(len(rows))])
        assert np.array_equal(joined.toarray(), X)
        assert np.array_equal(rows.y, y)


@pytest.mark.parametrize("kind", ["dense32", "csr"])
def test_memory_maps(tmp_path, kind):
    X, y = data("c_svc", kind=kind)
    if kind == "csr":
        for name in ("data", "indices", "indptr"):
            np.save(tmp_path / f"{name}.npy", getattr(X, name))
        arrays = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")]
        mapped = sp.csr_matrix(tuple(arrays), shape=X.shape, copy=False)
    else:
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    one, two = (solve_streamed(stream_rows(rows, memory=1.0), y, constant=1.0) for rows in (X, mapped))
    assert np.array_equal(one.weights, two.weights)


# -- limits and refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "method"), CASES[:3])
def test_limits_callbacks_and_history(row, method):
    X, y = data(row)
    rows = stream_rows(X, memory=1.0)
    options = {"constant": 1.0, "method": method, "gap_tol": 1e-12, "C": 10.0}
    short = solve_streamed(rows, y, row, **options, max_iter=1)
    assert short.status is Status.MAX_ITER
    assert short.certificate.primal == pytest.approx(objective(row, X, y, short, C=10.0, constant=1.0), rel=1e-10)
    late = solve_streamed(rows, y, row, **options, time_limit=1e-6)
    assert late.status is Status.TIME_LIMIT
    assert np.isfinite(late.certificate.gap)
    seen = []
    stopped = solve_streamed(rows, y, row, **options, callback=lambda event: seen.append(event) or True)
    assert stopped.status is Status.STOPPED
    assert seen == stopped.history.events[: len(seen)]
    assert stopped.history[-1].relative_gap == pytest.approx(stopped.certificate.relative_gap)


def test_ending_short_is_told_and_verbose_prints(capsys):
    X, y = data("c_svc")
    with pytest.warns(ConvergenceWarning, match="LinearSVC ended short") as caught:
        dualgap.LinearSVC(loss="hinge", max_iter=1, verbose=1).fit(stream_rows(X, y, memory=1.0))
    assert caught[0].filename == __file__
    assert "relative gap" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "l1", "dual": False}, "penalty='l2'"),
        ({"multi_class": "crammer_singer"}, "multi_class='ovr'"),
        ({"parametric": np.sin}, "parametric is not available"),
        ({"solver": "pegasos"}, "needs the data in memory"),
        ({"solver_options": {"seed": 1}}, "solver_options are for data in memory"),
        ({"solver": "dcd", "penalize_intercept": False}, "a bias without penalty needs Newton"),
    ],
)
def test_refusals_of_the_estimator(parameters, message):
    X, y = data("c_svc", n=200)
    with pytest.raises(ValueError, match=message):
        dualgap.LinearSVC(**parameters).fit(stream_rows(X, y, memory=1.0))


def test_refusals_of_sources(tmp_path):
    X, y = data("c_svc", n=200)
    for bad, message in (
        (lambda: stream_rows(X.astype(int)), "float32 or float64"),
        (lambda: stream_rows(sp.csc_matrix(X)), "must be CSR"),
        (lambda: stream_rows(X, y[1:]), "one label a row"),
        (lambda: stream_rows(X, memory=0.1), "memory must be at least 1"),
        (lambda: stream_blocks([]), "no samples"),
        (lambda: stream_blocks([(X, y[1:])]), "one label a row"),
        (lambda: stream_blocks([(X, y)], n_features=3), "more than n_features=3"),
        (lambda: stream_blocks([(np.full((2, 2), np.nan), [1, -1])]), "NaN or infinite"),
        (lambda: dualgap.LinearSVC().fit(stream_rows(X)), "requires y to be passed"),
        (lambda: dualgap.LinearSVC().fit(stream_rows(X), y[1:]), "one label a row"),
        (lambda: solve_streamed(stream_rows(X), y, "nu_svc"), "not available"),
        (lambda: solve_streamed(stream_rows(X), y, method="fast"), "method must be"),
        (lambda: solve_streamed(stream_rows(X), y, method="newton"), "for squared losses"),
        (lambda: solve_streamed(stream_rows(X), y, C=np.inf), "C must be"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
    (tmp_path / "bad.svm").write_text("+1 1:2\n-1 2:x\n")
    with pytest.raises(DataFileError, match="line 2"):
        stream_libsvm(tmp_path / "bad.svm")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.svm"]  # nothing is left behind
    with pytest.raises(DataFileError, match="name another folder as cache_dir"):
        stream_libsvm(tmp_path / "bad.svm", cache_dir=tmp_path / "nowhere")
    X[17, 3] = np.nan
    with pytest.raises(ValueError, match="too large in row 17"):
        dualgap.LinearSVC().fit(stream_rows(X, y))


def test_features_are_checked():
    X, y = data("c_svc", n=200)
    model = dualgap.LinearSVC().fit(stream_rows(X, y))
    with pytest.raises(ValueError, match="has 7 features"):
        model.predict(stream_rows(X[:, :7]))


# -- memory ----------------------------------------------------------------------------------------------------------

measured = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells a process's peak memory")
_MEASURED = """
import json, pathlib, sys, warnings
import numpy as np
import dualgap
kind, path, small, memory, loss = sys.argv[1:]
warnings.simplefilter("error")

def rows(name):
    if kind == "text":
        return dualgap.stream_libsvm(name, memory=float(memory))
    X = np.load(name, mmap_mode="r")
    return dualgap.stream_rows(X, np.where(np.load(name + ".y.npy") > 0, 1, -1), memory=float(memory))

def fit(name):
    with rows(name) as blocks:
        return dualgap.LinearSVC(loss=loss, tol=1e-2, n_jobs=1).fit(blocks)

def status(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

fit(small)  # what imports and compiled code take
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak
before = status("VmRSS")
model = fit(path)
grown = status("VmHWM") - before
print(json.dumps({"grown": grown, "gap": model.certificate_.relative_gap, "solver": model.solver_}))
"""


def grown(kind, path, small, memory, loss):
    """Bytes by which the memory of a process grows when it trains on a file, and how good the solution is."""
    arguments = [sys.executable, "-c", _MEASURED, kind, str(path), str(small), str(memory), loss]
    out = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout.splitlines()[-1])


@measured
def test_a_memory_map_larger_than_the_budget(tmp_path):
    rng = np.random.default_rng(0)
    names = []
    for name, n in (("small", 1500), ("large", 60_000)):
        X = np.lib.format.open_memmap(tmp_path / f"{name}.npy", mode="w+", dtype=np.float32, shape=(n, 200))
        w = np.linspace(-1, 1, 200)
        y = np.empty(n)
        for at in range(0, n, 5000):
            part = rng.normal(size=(min(5000, n - at), 200))
            X[at : at + len(part)] = part
            y[at : at + len(part)] = part @ w + 3.0 * rng.normal(size=len(part))
        X.flush()
        np.save(tmp_path / f"{name}.npy.y.npy", y)
        names.append(tmp_path / f"{name}.npy")
    found = grown("map", names[1], names[0], 10, "hinge")
    assert found["gap"] <= 1e-2
    assert found["grown"] > 1e6  # something was measured
    # 48 MB of rows: the budget, some 50 bytes a sample for labels, weights and variables, and what the heap keeps.
    assert found["grown"] < 25e6


@measured
def test_a_text_file_larger_than_the_budget(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("small.svm", 1000), ("large.svm", 40_000)):
        with (tmp_path / name).open("w") as file:
            for _ in range(n // 1000):
                columns = np.sort(rng.integers(0, 100, size=(1000, 50)) + 100 * np.arange(50), axis=1)
                values = rng.integers(-8, 8, size=(1000, 50)) / 16
                labels = np.where(values[:, :5].sum(axis=1) + 0.3 * rng.normal(size=1000) > 0, 1, -1)
                for label, row, entries in zip(labels, columns + 1, values, strict=True):
                    file.write(f"{label} " + " ".join(f"{c}:{v:.4f}" for c, v in zip(row, entries, strict=True)) + "\n")
    assert (tmp_path / "large.svm").stat().st_size > 20e6
    found = grown("text", tmp_path / "large.svm", tmp_path / "small.svm", 8, "hinge")
    assert found["solver"] == "blocks"
    assert found["gap"] <= 1e-2
    assert found["grown"] < 20e6

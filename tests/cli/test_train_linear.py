"""``dualgap train --linear`` and ``--stream``: linear machines from files, in memory and not."""

from __future__ import annotations

import errno
import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import dualgap
from dualgap.cli import app
from dualgap.cli.progress import Progress
from dualgap.datasets import load, streaming

runner = CliRunner()


def run(*arguments, code=0):
    """Run a command in this process; a mistake is one line on stderr."""
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    if code == 2:
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.splitlines()) == 1
    return result


def write(path: Path, n=600, d=40, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.3, format="csr", random_state=rng, data_rvs=lambda k: rng.normal(size=k).round(4))
    scores = X @ rng.normal(size=(d, classes)) + 0.5 * rng.normal(size=(n, classes))
    y = np.argmax(scores, axis=1) if classes > 1 else scores.ravel().round(4)
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return X, y


@pytest.fixture
def file(tmp_path):
    write(tmp_path / "data.svm")
    return tmp_path / "data.svm"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_streamed_and_loaded_agree_with_the_estimator(tmp_path, file, loss):
    X, y = load(file).X, load(file).y
    expected = dualgap.LinearSVC(loss=loss, C=0.5, gap_tol=1e-8, max_iter=-1).fit(X, y)
    for name, extra in {"loaded": ["--linear"], "streamed": ["--stream", "--memory", 1]}.items():
        model = tmp_path / f"{name}.dualgap"
        said = run("train", file, *extra, "--loss", loss, "-C", 0.5, "--gap-tol", 1e-8, "-o", model).stdout
        assert "within" in said
        assert "accuracy" in said
        found = dualgap.load(model)
        assert found.certificate_.relative_gap <= 1e-8
        # Strong convexity: 1/2 |w - w*|^2 is at most the gap of each.
        distance = np.linalg.norm(np.append(found.coef_ - expected.coef_, found.intercept_ - expected.intercept_))
        assert distance <= 2.0 * np.sqrt(2.0 * 1e-8 * expected.certificate_.primal)
    labels = run("predict", tmp_path / "streamed.dualgap", file).stdout.split()
    assert np.mean(np.array(labels, dtype=float) == expected.predict(X)) > 0.99


def test_the_temporary_rows_are_gone_afterwards(tmp_path, file):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    said = run("train", file, "--stream", "--stream-dir", elsewhere).stdout
    assert "on disk" in said
    assert "200 MB of rows at a time" in said
    assert list(elsewhere.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("dualgap-rows")] == []


def test_compressed_files_and_several_classes_are_streamed(tmp_path):
    write(tmp_path / "three.svm", classes=3)
    with gzip.open(tmp_path / "three.svm.gz", "wb") as packed:
        packed.write((tmp_path / "three.svm").read_bytes())
    said = run("train", tmp_path / "three.svm.gz", "--stream", "--report", tmp_path / "page.html").stdout
    assert "into 3 classes" in said
    assert "worst of the 3 classes" in said
    assert "LinearSVC on three.svm.gz" in (tmp_path / "page.html").read_text()


def test_regression_is_streamed(tmp_path):
    X, y = write(tmp_path / "targets.svm", classes=1)
    model = tmp_path / "model.dualgap"
    run("train", tmp_path / "targets.svm", "--stream", "--epsilon", 0.1, "--gap-tol", 1e-6, "-o", model)
    found = dualgap.load(model)
    expected = dualgap.LinearSVR(epsilon=0.1, gap_tol=1e-6, max_iter=-1).fit(X, y)
    assert found.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=2e-6)


def test_a_table_is_trained_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).round(3)
    lines = [
        "a,b,c,kind",
        *(f"{a},{b},{c},{'up' if a + b > 0 else 'down'}" for a, b, c in X),
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    model = tmp_path / "model.dualgap"
    run("train", table, "--linear", "--label-column", "kind", "-o", model)
    predicted = run("predict", model, table, "--label-column", "kind").stdout.split()
    assert np.mean([(label == "up") == (row[0] + row[1] > 0) for label, row in zip(predicted, X, strict=True)]) > 0.9
    assert "--stream reads LIBSVM text" in run("train", table, "--stream", code=2).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--linear", "--kernel", "rbf"], "no other kernel"),
        (["--linear", "--gamma", "0.5"], "--gamma means nothing to --linear"),
        (["--linear", "--tol", "0.1"], "say --gap-tol"),
        (["--linear", "--loss", "epsilon_insensitive"], "choose one of squared_hinge, hinge"),
        (["--linear", "--epsilon", "0.1"], "--epsilon means nothing to classifiers"),
        (["--linear", "--task", "outlier"], "--linear is for classification and regression"),
        (["--loss", "hinge"], "--loss is for --linear"),
        (["--linear", "--memory", "5"], "--memory is for --stream"),
        (["--stream", "--memory", "0.1"], "--memory 0.1: must be at least 1"),
        (["--stream", "--float32"], "--float32 means nothing to --stream"),
        (["--stream", "--solver", "ipm"], "with --stream it is newton or dcd"),
        (["--stream", "--checkpoint", "state"], "--checkpoint needs the data in memory"),
        (["--stream", "--stream-dir", "nowhere"], "create it first"),
    ],
)
def test_mistakes_name_their_remedy(file, options, words, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert words in run("train", file, *options, code=2).stderr


def test_a_malformed_line_is_named(tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:2\n-1 1:x\n")
    assert "line 2" in run("train", path, "--stream", code=2).stderr


def test_a_full_disk_names_another_folder(file, monkeypatch):
    def full(stream, values):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(streaming, "_store", full)
    assert "--stream-dir" in run("train", file, "--stream", code=2).stderr


def test_a_run_short_of_its_goal_still_writes_and_ends_with_3(tmp_path, file):
    model = tmp_path / "model.dualgap"
    result = run("train", file, "--stream", "--solver", "dcd", "--gap-tol", 1e-12, "--max-iter", 1, "-o", model, code=3)
    assert "--max-iter" in result.stderr
    assert dualgap.load(model).certificate_.relative_gap > 1e-12


def test_progress_counts_rows_and_classes(file):
    counts = []
    with dualgap.stream_libsvm(file, watch=counts.append) as rows:
        assert counts[-1] == rows.shape[0]
    assert counts == sorted(counts)
    progress = Progress("training", tasks=3, each="class")
    progress.task = 2
    assert "class 2 of 3" in progress.line()

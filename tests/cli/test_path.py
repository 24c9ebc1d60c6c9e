"""``dualgap path`` and ``dualgap tune``: what they print, what they write, and how they end."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import dualgap
from dualgap.cli import app
from dualgap.cli.grids import grid

runner = CliRunner()


def run(*arguments, code=0):
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    if code == 2:
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
    return result


@pytest.fixture
def data(tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3)).round(3)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1, -1)
    rows = [",".join(["a", "b", "c", "kind"]), *(",".join(map(str, [*x, k])) for x, k in zip(X, y, strict=True))]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_path_prints_a_table_and_writes_json(data, tmp_path):
    out = run("path", data, "-v", "0.1,1,10", "--cv", 3, "--gap-tol", "1e-6", "--json", tmp_path / "path.json")
    assert "classification into 2 classes" in out.stdout
    assert "objective" in out.stdout
    content = json.loads((tmp_path / "path.json").read_text())
    assert [row["C"] for row in content["path"]] == [0.1, 1.0, 10.0]
    assert all(row["relative_gap"] <= 1e-6 for row in content["path"])
    loaded = dualgap.datasets.load(data)
    again = dualgap.svm_path(loaded.X, loaded.y, [0.1, 1.0, 10.0], gap_tol=1e-6, cv=3)
    assert [row["validation_error"] for row in content["path"]] == pytest.approx(again.validation_errors.tolist())
    assert content["path"][0]["lower_bound"] is None


def test_path_draws(data, tmp_path):
    pytest.importorskip("matplotlib")
    run("path", data, "-v", "0.1:100:5", "--plot", tmp_path / "path.png", "-q")
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")
    run("path", data, "-p", "gamma", "-v", "0.1,1", "--cv", 2, "--plot", tmp_path / "path.svg", "-q")
    assert "validation error" in (tmp_path / "path.svg").read_text() or (tmp_path / "path.svg").stat().st_size > 1000


def test_path_of_other_machines(data):
    assert "nu" in run("path", data, "--formulation", "nu_svc", "-p", "nu", "-v", "0.1,0.3").stdout
    assert "epsilon" in run("path", data, "--task", "regression", "-p", "epsilon", "-v", "0.1,0.3").stdout


def test_tune_prints_a_table_and_keeps_the_model(data, tmp_path):
    out = run(
        "tune", data, "-C", "0.1,1,10", "-g", "scale,0.1", "--cv", 3,
        "-o", tmp_path / "m.dualgap", "--json", tmp_path / "t.json",
    )  # fmt: skip
    assert "by 3-fold cross-validation" in out.stdout
    content = json.loads((tmp_path / "t.json").read_text())
    assert len(content["candidates"]) == 6
    model = dualgap.load(tmp_path / "m.dualgap")
    assert content["best"]["C"] == model.C
    assert content["best"]["score"] == max(one["mean_test_score"] for one in content["candidates"])
    assert "accuracy" in run("tune", data, "-k", "linear", "-C", "1,2", "--cv", 2).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("path", "-v", "1:2"), "LOW:HIGH:COUNT"),
        (("path", "-v", "5:2:3"), "below HIGH"),
        (("path", "-v", "1,x"), "'x' is no number"),
        (("path", "-C", "3"), "leave -C out"),
        (("path", "-p", "gamma", "-g", "0.5"), "leave --gamma out"),
        (("path", "-p", "nu"), "does not read nu"),
        (("path", "--cv", "1"), "at least 2 folds"),
        (("path", "--plot", "path.txt"), "must end in"),
        (("path", "-k", "linear", "-g", "0.5"), "means nothing to --kernel linear"),
        (("path", "--solver", "magic"), "Unknown solver"),
        (("tune", "-C", "abc"), "no number"),
        (("tune", "-k", "linear", "-g", "1"), "means nothing"),
        (("tune", "--cv", "1"), "at least 2 folds"),
    ],
)
def test_mistakes_are_one_line(data, arguments, message):
    command, *rest = arguments
    assert message in run(command, data, *rest, code=2).stderr


def test_grids():
    np.testing.assert_allclose(grid("0.01:100:5", "-C"), [0.01, 0.1, 1.0, 10.0, 100.0])
    assert grid("3, 1,3", "-C") == [3.0, 1.0]
    assert grid("scale,2", "-g", words=("scale",)) == ["scale", 2.0]


def test_tune_draws_a_heat_map(data, tmp_path):
    pytest.importorskip("matplotlib")
    run("tune", data, "-C", "0.1,1", "-g", "0.1,1", "--cv", 2, "-q", "--plot", tmp_path / "tune.svg")
    text = (tmp_path / "tune.svg").read_text()
    assert text.count("<svg") == 1
    run("tune", data, "-k", "linear", "-C", "0.1,1", "--cv", 2, "-q", "--plot", tmp_path / "tune.png")
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")


def test_tune_of_regression(data, tmp_path):
    table, model = tmp_path / "t.json", tmp_path / "m.dualgap"
    out = run(
        "tune", data, "--task", "regression", "-C", "0.1,1", "-g", "0.1,1", "--epsilon", "0.05,0.3", "--cv", 3,
        "--json", table, "-o", model, "--plot", tmp_path / "tune.png",
    )  # fmt: skip
    assert "R2 at epsilon" in out.stdout
    content = json.loads(table.read_text())
    assert len(content["candidates"]) == 8
    best = dualgap.load(model)
    assert (best.C, best.epsilon) == (content["best"]["C"], content["best"]["epsilon"])
    assert content["best"]["score"] == max(one["mean_test_score"] for one in content["candidates"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", "0.1"), "means nothing to classifiers"),
        (("--task", "outlier"), "not of this task (--task outlier)"),
        (("--plot", "tune.txt"), "must end in"),
        (("--task", "regression", "--epsilon", "a"), "no number"),
    ],
)
def test_mistakes_of_tune_are_one_line(data, arguments, message):
    assert message in run("tune", data, *arguments, code=2).stderr

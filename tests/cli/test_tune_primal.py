"""``dualgap tune --linear --smoothing --stop``: the parts, the choice, what is written, and how it refuses."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner

from dualgap.cli import app
from dualgap.cli.tune_primal import Constants, Division
from dualgap.l1svm import solve_l1_svm


@pytest.fixture(scope="module")
def samples():
    X, y = load_breast_cancer(return_X_y=True)
    return (X / X.max(axis=0))[:300, :10], np.where(y[:300] == 1, 1.0, -1.0)


@pytest.fixture(scope="module")
def file(samples, tmp_path_factory):
    X, y = samples
    path = tmp_path_factory.mktemp("tune") / "cancer.npz"
    np.savez(path, X=X, y=y)
    return path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["tune", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def wrong(X, y, x):
    return float(np.mean(np.where(X @ x[:-1] + x[-1] > 0.0, 1.0, -1.0) != y))


def test_the_best_combination_is_chosen_by_validation_and_tested_apart(file, samples, tmp_path):
    X, y = samples
    out = run(
        file, "--linear", "--penalty", "l1", "--loss", "hinge", "-C", "0.1,1,10", "--smoothing", "0.1,0.001",
        "--stop", "1,1e-4", "--method", "tn", "--seed", 3, "--json", tmp_path / "t.json",
    )  # fmt: skip
    found = json.loads((tmp_path / "t.json").read_text())
    assert (found["penalty"], found["loss"], found["method"]) == ("l1", "hinge", "tn")
    tried = [(one["C"], one["eps"], one["tol"]) for one in found["trials"]]
    assert tried == [(C, eps, tol) for C in (0.1, 1.0, 10.0) for eps in (0.1, 0.001) for tol in (1.0, 1e-4)]
    best = min(found["trials"], key=lambda one: (one["error"], one["n_products"]))
    assert {key: found["best"][key] for key in best} == best
    # The errors are those of the weights on parts that are divided again here.
    train, valid, test = Division(0.25, 0.25, 3).parts(y)
    assert found["samples"] == {"training": len(train), "validation": len(valid), "test": len(test)}
    weights = np.array(found["weights"])
    assert best["error"] == wrong(X[valid], y[valid], weights)
    assert found["best"]["test_error"] == wrong(X[test], y[test], weights)
    assert best["error"] < 0.15
    assert f"C = {best['C']:g}, eps = {best['eps']:g}, stop at a gradient of {best['tol']:g}" in out.stdout
    assert f"{len(train)} training, {len(valid)} validation, {len(test)} test" in out.stdout


def test_a_tight_combination_is_the_machine_itself(file, samples, tmp_path):
    X, y = samples
    run(
        file, "--linear", "--penalty", "l1", "--loss", "hinge", "-C", 1, "--smoothing", "1e-4", "--stop", "1e-5",
        "--method", "tn", "--test", 0, "--quiet", "--json", tmp_path / "t.json",
    )  # fmt: skip
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["best"]["test_error"] is None
    train, _, test = Division(0.25, 0.0, 0).parts(y)
    assert test.size == 0
    exact = solve_l1_svm(X[train], y[train], 1.0).certificate.primal
    weights = np.array(found["weights"])
    slack = np.maximum(0.0, 1.0 - y[train] * (X[train] @ weights[:-1] + weights[-1]))
    assert np.abs(weights[:-1]).sum() + slack.sum() == pytest.approx(exact, rel=1e-4)


def test_parts_are_disjoint_and_every_class_is_divided_alike(samples):
    _, y = samples
    parts = Division(0.3, 0.2, 7).parts(y)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(y.size))
    for part, share in zip(parts, (0.5, 0.3, 0.2), strict=True):
        for label in (-1.0, 1.0):
            assert np.sum(y[part] == label) == pytest.approx(share * np.sum(y == label), abs=1.01)
    again = Division(0.3, 0.2, 7).parts(y)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts[1], Division(0.3, 0.2, 8).parts(y)[1])


def test_a_grid_that_is_left_out_is_the_usual_one():
    constants = Constants.of([1.0], "0.5", None)
    assert (constants.epsilons, constants.tols, len(constants)) == ([0.5], [1e-1, 1e-3, 1e-5], 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--stop", "1"), "are for --linear"),
        (("--linear", "--stop", "0"), "--stop: all values must be positive"),
        (("--linear", "--smoothing", "x"), "no number"),
        (("--linear", "--stop", "1", "-g", "1"), "--gamma means nothing"),
        (("--linear", "--stop", "1", "-o", "m.dualgap"), "--output means nothing"),
        (("--linear", "--stop", "1", "--penalty", "l3"), "--penalty is one of"),
        (("--linear", "--stop", "1", "--method", "magic"), "Unknown method"),
        (("--linear", "--stop", "1", "--validation", "0.6", "--test", "0.4"), "leave samples to train on"),
        (("--linear", "--stop", "1", "--validation", "0.0001"), "too few samples"),
    ],
)
def test_mistakes_are_one_line(file, arguments, message):
    assert message in run(file, *arguments, code=2).output

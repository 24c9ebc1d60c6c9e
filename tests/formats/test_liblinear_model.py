"""LIBLINEAR's model files: the real programs read what is written here, and what they write is read here."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dualgap
from dualgap.formats.liblinear_model import read_liblinear_model, write_liblinear_model
from dualgap.tensors import ModelFileError

programs = pytest.mark.skipif(
    shutil.which("liblinear-train") is None or shutil.which("liblinear-predict") is None,
    reason="LIBLINEAR's programs liblinear-train and liblinear-predict are not installed",
)
CLASSIFIERS = {
    1: {"loss": "squared_hinge"},
    2: {"loss": "squared_hinge", "dual": False},
    3: {"loss": "hinge"},
    4: {"multi_class": "crammer_singer"},
    5: {"penalty": "l1"},
}
REGRESSORS = {
    11: {"loss": "squared_epsilon_insensitive", "dual": False},
    12: {"loss": "squared_epsilon_insensitive"},
    13: {"loss": "epsilon_insensitive"},
}
NAMES = {
    1: "L2R_L2LOSS_SVC_DUAL",
    2: "L2R_L2LOSS_SVC",
    3: "L2R_L1LOSS_SVC_DUAL",
    4: "MCSVM_CS",
    5: "L1R_L2LOSS_SVC",
    11: "L2R_L2LOSS_SVR",
    12: "L2R_L2LOSS_SVR_DUAL",
    13: "L2R_L1LOSS_SVR_DUAL",
}


def samples(n=60, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 5))


def targets(X, labels=None):
    score = X[:, 0] + 0.5 * X[:, 1]
    if labels is None:
        return score + 3.0
    return np.asarray(labels)[np.argsort(np.argsort(score)) * len(labels) // len(X)]


def write_data(path, X, y):
    rows = [" ".join(f"{column}:{value!r}" for column, value in enumerate(row, 1)) for row in X.tolist()]
    path.write_text("".join(f"{label!r} {row}\n" for label, row in zip(y.astype(float).tolist(), rows, strict=True)))


def run(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=60)


def liblinear_predicts(folder, X, model):
    write_data(folder / "new", X, np.zeros(len(X)))
    run("liblinear-predict", folder / "new", model, folder / "out")
    return np.loadtxt(folder / "out")


@programs
@pytest.mark.parametrize("bias", [-1, 0, 1, 2.5])
@pytest.mark.parametrize("labels", [(1, -1), (-1, 1), (3, 1, 2)])
@pytest.mark.parametrize("solver", CLASSIFIERS)
def test_classifiers_of_liblinear_are_read_and_written_again(tmp_path, solver, labels, bias):
    X, new = samples(), samples(40, 3)
    write_data(tmp_path / "data", X, targets(X, labels))
    run("liblinear-train", "-q", "-s", solver, "-B", bias, tmp_path / "data", tmp_path / "model")
    model = read_liblinear_model(tmp_path / "model")
    expected = liblinear_predicts(tmp_path, new, tmp_path / "model")
    assert_array_equal(model.predict(new), expected)
    assert model.get_params().items() >= CLASSIFIERS[solver].items()
    write_liblinear_model(model, tmp_path / "again")
    assert_array_equal(liblinear_predicts(tmp_path, new, tmp_path / "again"), expected)
    assert (tmp_path / "again").read_text().split()[1] == NAMES[solver]


@programs
@pytest.mark.parametrize("bias", [-1, 2.5])
@pytest.mark.parametrize("solver", REGRESSORS)
def test_regressors_of_liblinear_are_read_and_written_again(tmp_path, solver, bias):
    X, new = samples(), samples(40, 3)
    write_data(tmp_path / "data", X, targets(X))
    run("liblinear-train", "-q", "-s", solver, "-B", bias, tmp_path / "data", tmp_path / "model")
    model = read_liblinear_model(tmp_path / "model")
    expected = liblinear_predicts(tmp_path, new, tmp_path / "model")
    assert_allclose(model.predict(new), expected, rtol=1e-5, atol=1e-5)  # printed with six digits
    write_liblinear_model(model, tmp_path / "again")
    assert_array_equal(liblinear_predicts(tmp_path, new, tmp_path / "again"), expected)


@programs
@pytest.mark.parametrize("labels", [(-1, 1), (4, 5, 6)])
@pytest.mark.parametrize("params", [*CLASSIFIERS.values(), {"fit_intercept": False}])
def test_liblinear_predicts_as_what_was_trained_here(tmp_path, params, labels):
    X, new = samples(), samples(40, 3)
    model = dualgap.LinearSVC(**params).fit(X, targets(X, labels))
    write_liblinear_model(model, tmp_path / "model")
    assert_array_equal(liblinear_predicts(tmp_path, new, tmp_path / "model"), model.predict(new))


@programs
@pytest.mark.parametrize("name", ["heart_scale", "letter.t"])
def test_real_data(tmp_path, data_folder, name):
    data = dualgap.datasets.load(dualgap.datasets.find(name))
    X, y = data.X.toarray()[:1000], data.y[:1000]
    model = dualgap.LinearSVC().fit(X, y)
    write_liblinear_model(model, tmp_path / "model")
    assert_array_equal(liblinear_predicts(tmp_path, X, tmp_path / "model"), model.predict(X))


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (dualgap.LinearSVC(intercept_scaling=3.0), (-1, 1)),
        (dualgap.LinearSVC(multi_class="crammer_singer"), (1, 2)),
        (dualgap.LinearSVC(penalty="l1", fit_intercept=False), (1.0, 7.0, 4.0)),
        (dualgap.LinearSVR(fit_intercept=False), None),
        (dualgap.LinearSVR(), None),
        (dualgap.LinearOneClassSVM(nu=0.3), None),
    ],
)
def test_values_come_back_exactly(tmp_path, model, labels):
    X = samples() + 2.0
    model.fit(X, targets(X, labels))
    write_liblinear_model(model, tmp_path / "model")
    same = read_liblinear_model(tmp_path / "model")
    for name in ("predict", "decision_function"):
        if hasattr(model, name):
            assert_array_equal(getattr(same, name)(X), getattr(model, name)(X))
    assert_array_equal(same.coef_, model.coef_)
    assert "liblinear" in same.certificate_.note
    dualgap.save(same, tmp_path / "native")
    assert_array_equal(dualgap.load(tmp_path / "native").predict(X), same.predict(X))


def test_a_one_class_file_of_liblinear(tmp_path):
    text = "solver_type ONECLASS_SVM\nnr_class 2\nnr_feature 2\nbias -1\nrho 0.5\nw\n1 \n-2 \n"
    (tmp_path / "model").write_text(text)
    model = read_liblinear_model(tmp_path / "model")
    assert_array_equal(model.decision_function([[1.0, 0.0], [0.0, 1.0]]), [0.5, -2.5])
    write_liblinear_model(model, tmp_path / "again")
    assert (tmp_path / "again").read_text() == text


def test_what_the_format_cannot_hold_is_refused(tmp_path):
    X = samples()
    y = targets(X, (0, 1))
    for model, words in (
        (dualgap.LinearSVC(penalty="l1", loss="hinge").fit(X, y), "no machine of penalty"),
        (dualgap.LinearSVC().fit(X, np.where(y, "a", "b")), "integers"),
        (dualgap.LinearSVC(parametric=[lambda X: X[:, 0]]).fit(X, y), "semi-parametric"),
        (dualgap.LinearSVDD().fit(X), "one of LinearSVC"),
        (dualgap.SVC(kernel="linear").fit(X, y), "write_libsvm_model"),
        (dualgap.LinearSVC(), "not fitted"),
    ):
        with pytest.raises(ValueError, match=words):
            write_liblinear_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


GOOD = "solver_type MCSVM_CS\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n1 2 \n3 4 \n5 6 \n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("MCSVM_CS", "L2R_LR", "solver_type"),
        ("MCSVM_CS", "L2R_L1LOSS_SVR_DUAL", "weights"),
        ("nr_class 2", "nr_class 0", "out of range"),
        ("nr_class 2", "nr_class 1000000000", "fewer"),
        ("nr_feature 2", "nr_feature 2000000000", "fewer"),
        ("nr_feature 2", "nr_feature 0", "out of range"),
        ("nr_feature 2", "nr_feature 1", "6 weights"),
        ("nr_feature 2\n", "", "nr_feature"),
        ("bias 1", "bias nan", "finite"),
        ("bias 1", "bias 1e308", "not finite"),
        ("label 1 -1", "label 1 1", "twice"),
        ("label 1 -1", "label 1 x", "32 bits"),
        ("5 6 ", "5 inf", "not a number"),
        ("5 6 ", "5 1e400", "too large"),
        ("5 6 ", "5", "5 weights"),
        ("w\n", "v\n", "no part"),
    ],
)
def test_a_file_that_is_wrong_says_how(tmp_path, old, new, words):
    path = tmp_path / "model"
    path.write_text(GOOD)
    assert_array_equal(read_liblinear_model(path).coef_, [[-1.0, -1.0]])
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ModelFileError, match=words) as caught:
        read_liblinear_model(path)
    assert str(caught.value).startswith(f"{path}: ")

"""LIBSVM's model files: the real programs read what is written here, and what they write is read here."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import dualgap
from dualgap.formats.libsvm_model import read_libsvm_model, write_libsvm_model
from dualgap.tensors import ModelFileError

MACHINES = {
    "c_svc": dualgap.SVC,
    "nu_svc": dualgap.NuSVC,
    "one_class": dualgap.OneClassSVM,
    "epsilon_svr": dualgap.SVR,
    "nu_svr": dualgap.NuSVR,
}
KERNELS = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.3, "coef0": 0.7},
    "rbf": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.05, "coef0": -0.1},
}
programs = pytest.mark.skipif(
    shutil.which("svm-train") is None or shutil.which("svm-predict") is None,
    reason="LIBSVM's programs svm-train and svm-predict are not installed",
)


def samples(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 5))
    X[np.abs(X) < 0.3] = 0.0
    X[:, 0] += 2.0  # beside the origin: a linear one-class machine has no answer around it
    return X


def targets(X, labels=None):
    # Nearly linear: with a nu below the share of errors a machine has no margin, and its values are rounding.
    score = X[:, 0] + 0.5 * X[:, 1] + 0.05 * X[:, 2] ** 2
    if labels is None:
        return score
    return np.asarray(labels)[np.argsort(np.argsort(score)) * len(labels) // len(X)]


def write_data(path, X, y):
    lines = []
    for row, label in zip(X, y, strict=True):
        pairs = [f"{column}:{float(value)!r}" for column, value in enumerate(row, 1) if value]
        lines.append(" ".join([f"{float(label)!r}", *pairs]))
    path.write_text("\n".join(lines) + "\n")


def libsvm_predicts(folder, X, model):
    write_data(folder / "new", X, np.zeros(len(X)))
    command = ["svm-predict", folder / "new", model, folder / "out"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return np.loadtxt(folder / "out")


def libsvm_trains(folder, X, y, *flags):
    write_data(folder / "data", X, y)
    command = ["svm-train", "-q", *map(str, flags), folder / "data", folder / "model"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder / "model"


def fitted(machine, kernel="rbf", labels=(-1, 1), layout=np.asarray, **params):
    X = samples()
    cls = MACHINES[machine]
    y = targets(X, labels) if machine in ("c_svc", "nu_svc") else targets(X)
    if machine == "nu_svc":
        params.setdefault("nu", 0.3)
    return cls(kernel=kernel, **KERNELS.get(kernel, {}), **params).fit(layout(X), y)


# -- with the programs --------------------------------------------------------------------------------------------


@programs
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_svm_predict_agrees_with_what_was_trained_here(tmp_path, machine, kernel):
    model = fitted(machine, kernel)
    write_libsvm_model(model, tmp_path / "model")
    new = samples(40, 3)
    assert_allclose(libsvm_predicts(tmp_path, new, tmp_path / "model"), model.predict(new), rtol=1e-11, atol=1e-11)


@programs
@pytest.mark.parametrize("labels", [(3, 1, 2), (-5, 0, 5, 7), (2, 1)])
@pytest.mark.parametrize("machine", ["c_svc", "nu_svc"])
def test_svm_predict_agrees_on_several_classes(tmp_path, machine, labels):
    model = fitted(machine, labels=labels, layout=sp.csr_matrix)
    write_libsvm_model(model, tmp_path / "model")
    new = samples(40, 3)
    assert_array_equal(libsvm_predicts(tmp_path, new, tmp_path / "model"), model.predict(new))


@programs
@pytest.mark.parametrize("kernel", range(4))
@pytest.mark.parametrize("machine", range(5))
def test_what_svm_train_writes_is_read(tmp_path, machine, kernel):
    X = samples()
    y = targets(X, (1, -1)) if machine < 3 else targets(X)
    flags = ("-s", machine, "-t", kernel, "-g", 0.2, "-d", 2, "-r", 0.1, "-n", 0.3)
    path = libsvm_trains(tmp_path, X, y, *flags)
    model = read_libsvm_model(path)
    assert type(model) is list(MACHINES.values())[machine]
    new = samples(40, 3)
    assert_allclose(libsvm_predicts(tmp_path, new, path), model.predict(new), rtol=1e-11, atol=1e-11)


@programs
@pytest.mark.parametrize("labels", [(3, 1, 2), (4, 3, 2, 1), (1, -1), (-1, 1), (9, 8)])
def test_classes_in_the_order_of_the_data_are_sorted(tmp_path, labels):
    X = samples()
    y = targets(X, labels)
    first = np.argsort(y != labels[0], kind="stable")  # LIBSVM's order is that of first appearance
    path = libsvm_trains(tmp_path, X[first], y[first], "-b", 1)
    model = read_libsvm_model(path)
    assert_array_equal(model.classes_, sorted(labels))
    new = samples(40, 3)
    expected = libsvm_predicts(tmp_path, new, path)
    assert_array_equal(model.predict(new), expected)
    write_libsvm_model(model, tmp_path / "again")
    assert_array_equal(libsvm_predicts(tmp_path, new, tmp_path / "again"), expected)


@programs
@pytest.mark.parametrize("labels", [(3, 1, 2), (-1, 1), (1, -1)])
def test_probabilities_survive_the_way_there_and_back(tmp_path, labels):
    X = samples()
    path = libsvm_trains(tmp_path, X, targets(X, labels), "-b", 1)
    write_libsvm_model(read_libsvm_model(path), tmp_path / "again")
    new = samples(40, 3)
    write_data(tmp_path / "new", new, np.zeros(len(new)))
    found = {}
    for name in ("model", "again"):
        command = ["svm-predict", "-b", "1", tmp_path / "new", tmp_path / name, tmp_path / "out"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        header, *rows = (tmp_path / "out").read_text().splitlines()
        columns = [int(label) for label in header.split()[1:]]
        table = np.array([row.split()[1:] for row in rows], dtype=float)
        found[name] = table[:, np.argsort(columns)]
    # Printed with six digits; of more than two classes to 0.005 / classes, from a start that their order decides.
    assert_allclose(found["again"], found["model"], atol=1e-5 if len(labels) == 2 else 0.005, rtol=0)


@programs
def test_precomputed_kernels_go_both_ways(tmp_path):
    X, new = samples(), samples(30, 3)
    y = targets(X, (1, 2, 3))
    matrix, across = X @ X.T, new @ X.T
    model = dualgap.SVC(kernel="precomputed").fit(matrix, y)
    write_libsvm_model(model, tmp_path / "ours")

    def lines(table, labels):
        rows = [" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in table.tolist()]
        return "\n".join(f"{label} 0:{i} {row}" for i, (label, row) in enumerate(zip(labels, rows, strict=True), 1))

    (tmp_path / "new").write_text(lines(across, np.zeros(30)) + "\n")
    (tmp_path / "data").write_text(lines(matrix, y) + "\n")
    subprocess.run(
        ["svm-train", "-q", "-t", "4", tmp_path / "data", tmp_path / "theirs"], check=True, capture_output=True
    )
    for name in ("ours", "theirs"):
        command = ["svm-predict", tmp_path / "new", tmp_path / name, tmp_path / "out"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        read = read_libsvm_model(tmp_path / name, n_features=len(X))
        assert_array_equal(np.loadtxt(tmp_path / "out"), read.predict(across))
    assert_array_equal(read_libsvm_model(tmp_path / "ours", n_features=len(X)).predict(across), model.predict(across))


@programs
@pytest.mark.parametrize(("name", "count"), [("heart_scale", None), ("letter.t", 1300), ("abalone", 600)])
def test_real_data_both_ways(tmp_path, data_folder, name, count):
    data = dualgap.datasets.load(dualgap.datasets.find(name))
    X, y = data.X.toarray()[:count], data.y[:count]
    regression = name == "abalone"
    machine = dualgap.SVR(C=10.0) if regression else dualgap.SVC(C=10.0)
    model = machine.fit(X, y)
    write_libsvm_model(model, tmp_path / "ours")
    theirs = libsvm_trains(tmp_path, X, y, "-s", 3 if regression else 0, "-c", 10)
    for path, one in ((tmp_path / "ours", model), (theirs, read_libsvm_model(theirs, n_features=X.shape[1]))):
        predicted = libsvm_predicts(tmp_path, X, path)
        if regression:
            assert_allclose(predicted, one.predict(X), rtol=1e-9)
        else:
            assert_array_equal(predicted, one.predict(X))


# -- there and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(-1, 1), (1, 2, 3), (0.0, 4.0, 9.0, 2.0)])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("kernel", KERNELS)
def test_decision_values_come_back(tmp_path, kernel, layout, labels):
    model = fitted("c_svc", kernel, labels, layout, decision_function_shape="ovo")
    write_libsvm_model(model, tmp_path / "model")
    same = read_libsvm_model(tmp_path / "model").set_params(decision_function_shape="ovo")
    new = samples(40, 3)
    assert_allclose(same.decision_function(new), model.decision_function(new), rtol=1e-12, atol=1e-12)
    assert_array_equal(same.predict(new), model.predict(new))
    assert_array_equal(same.intercept_, model.intercept_)
    assert_array_equal(same._dual_coef, model._dual_coef)
    assert_array_equal(same.n_support_, model.n_support_)


def test_platt_parameters_come_back(tmp_path):
    for labels in ((-1, 1), (1, 2, 3)):
        model = fitted("c_svc", labels=labels)
        pairs = len(model.intercept_)
        model.probA_, model.probB_ = -1.0 - np.arange(pairs), 0.25 + np.arange(pairs)
        write_libsvm_model(model, tmp_path / "model")
        same = read_libsvm_model(tmp_path / "model")
        assert_array_equal(same.probA_, model.probA_)
        assert_array_equal(same.probB_, model.probB_)


def test_an_approximate_machine_of_two_classes_is_written(tmp_path):
    model = fitted("c_svc", approximation="sgma", rank=15)
    write_libsvm_model(model, tmp_path / "model")
    new = samples(40, 3)
    assert_allclose(read_libsvm_model(tmp_path / "model").decision_function(new), model.decision_function(new))


def test_a_model_that_was_read_says_so_and_can_be_saved(tmp_path):
    write_libsvm_model(fitted("c_svc"), tmp_path / "model")
    model = read_libsvm_model(tmp_path / "model")
    assert np.isnan(model.certificate_.gap)
    assert "libsvm" in str(model.certificate_)
    assert model.solver_ == "libsvm"
    dualgap.save(model, tmp_path / "model.dualgap")
    loaded = dualgap.load(tmp_path / "model.dualgap")
    assert_array_equal(loaded.decision_function(samples()), model.decision_function(samples()))
    assert loaded.status_ is None


def test_equal_votes_go_to_the_class_that_the_file_names_first(tmp_path):
    # No support vectors: the pairs (3, 1), (3, 2) and (1, 2) vote 3, 2 and 1, whatever the sample.
    head = "svm_type c_svc\nkernel_type linear\nnr_class 3\ntotal_sv 0\nrho -1 1 -1\nlabel 3 1 2\nnr_sv 0 0 0\nSV\n"
    (tmp_path / "model").write_text(head)
    model = read_libsvm_model(tmp_path / "model", n_features=1)
    assert_array_equal(model.predict([[5.0]]), [3])
    dualgap.save(model, tmp_path / "native")
    assert_array_equal(dualgap.load(tmp_path / "native").predict([[5.0]]), [3])


def test_more_features_can_be_asked_for(tmp_path):
    write_libsvm_model(fitted("epsilon_svr"), tmp_path / "model")
    model = read_libsvm_model(tmp_path / "model", n_features=9)
    wide = np.hstack((samples(), np.zeros((60, 4))))
    assert_allclose(model.predict(wide), read_libsvm_model(tmp_path / "model").predict(samples()))
    with pytest.raises(ModelFileError, match="n_features=3"):
        read_libsvm_model(tmp_path / "model", n_features=3)


def test_ten_thousand_support_vectors_are_read_quickly(tmp_path):
    from time import perf_counter

    chance = np.random.default_rng(0)
    row = " ".join(f"{column}:{value!r}" for column, value in enumerate(chance.normal(size=40).tolist(), 1))
    head = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 4\ntotal_sv 10000\nrho 1 2 3 4 5 6\nlabel 1 2 3 4\n"
    (tmp_path / "model").write_text(head + "nr_sv 2500 2500 2500 2500\nSV\n" + f"0.5 -1 0.25 {row}\n" * 10_000)
    start = perf_counter()
    assert len(read_libsvm_model(tmp_path / "model").support_) == 10_000
    assert perf_counter() - start < 5.0  # some 0.4 s on an idle machine


# -- what LIBSVM has not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: dualgap.SVDD().fit(samples()), "one of SVC"),
        (lambda: dualgap.LinearSVC().fit(samples(), targets(samples(), (0, 1))), "write_liblinear_model"),
        (lambda: dualgap.SVC(), "not fitted"),
        (lambda: fitted("epsilon_svr", "laplacian"), "no kernel 'laplacian'"),
        (lambda: fitted("epsilon_svr", lambda X, Z: X @ Z.T), "no kernel 'callable'"),
        (lambda: fitted("c_svc", labels=("a", "b")), "integers"),
        (lambda: fitted("c_svc", labels=(0, 2**31)), "integers"),
        (lambda: fitted("c_svc", labels=(1, 2, 3), multi_class="ovr"), "one against one"),
        (lambda: fitted("c_svc", labels=(1, 2, 3), approximation="sgma", rank=9), "one against one"),
        (lambda: fitted("epsilon_svr", parametric=[lambda X: X[:, 0]]), "semi-parametric"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path, model, words):
    with pytest.raises(ValueError, match=words):
        write_libsvm_model(model(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


GOOD = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 3
rho 0.1 0.2 0.3
label 1 2 3
nr_sv 1 1 1
SV
1 0.5 1:1 3:2
-1 0.5 2:1
-0.5 -0.5
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("svm_type c_svc", "svm_type c_svr", "svm_type"),
        ("svm_type c_svc", "svm_type epsilon_svr", "nr_class"),
        ("kernel_type rbf", "kernel_type cosine", "kernel_type"),
        ("kernel_type rbf", "kernel_type polynomial", "degree"),
        ("kernel_type rbf\n", "", "kernel_type"),
        ("gamma 0.5", "gamma -0.5", "out of range"),
        ("gamma 0.5", "gamma nan", "finite"),
        ("gamma 0.5", "gamma 0.5 0.5", "1 are expected"),
        ("gamma 0.5", "gamma 0.5\ngamma 0.5", "again"),
        ("gamma 0.5", "gramma 0.5", "no part"),
        ("nr_class 3", "nr_class 2000000000", "are expected"),
        ("nr_class 3", "nr_class 1", "nr_class"),
        ("nr_class 3", "nr_class -3", "negative"),
        ("nr_class 3", "nr_class 99999999999999999999", "32 bits"),
        ("total_sv 3", "total_sv 2000000000", "add up"),
        ("total_sv 3", "total_sv three", "32 bits"),
        ("rho 0.1 0.2", "rho 0.1", "are expected"),
        ("rho 0.1", "rho 1e999", "finite"),
        ("label 1 2 3", "label 1 2 2", "twice"),
        ("label 1 2 3", "label 1 2 c", "32 bits"),
        ("nr_sv 1 1 1", "nr_sv 2 2 -1", "add up"),
        ("SV\n", "", "no part"),
        ("SV\n", "SV\n\n", "4 lines"),
        ("-1 0.5 2:1", "-1 0.5 0:1", "index below 1"),
        ("-1 0.5 2:1", "-1 0.5 2:1 2:1", "twice"),
        ("-1 0.5 2:1", "-1 0.5 2147483648:1", "2147483647"),
        ("-1 0.5 2:1", "-1 0.5 99999999999999999999:1", "above"),
        ("-1 0.5 2:1", "-1 0.5 2:1 # more", "comment"),
        ("-1 0.5 2:1", "-1 0.5 2:inf", "finite"),
        ("-1 0.5 2:1", "-1 nan 2:1", "not a number"),
        ("-1 0.5 2:1", "-1 1e999 2:1", "too large"),
        ("-1 0.5 2:1", "-1", "fewer than the 2"),
        ("-1 0.5 2:1", "-1 1_0 2:1", "not a number"),
        ("-0.5 -0.5\n", "", "2 lines"),
        ("rho 0.1 0.2 0.3", "rho 0.1 0.2 0.3\nprobA 1 2 3", "probA without probB"),
    ],
)
def test_a_file_that_is_wrong_says_how(tmp_path, old, new, words):
    path = tmp_path / "model"
    path.write_text(GOOD)
    assert read_libsvm_model(path).n_features_in_ == 3
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ModelFileError, match=words) as caught:
        read_libsvm_model(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


@pytest.mark.parametrize("content", [b"", b"SV\n", b"\x00" * 100, b"\xff\xfe", b"svm_type", GOOD.encode()[:90]])
def test_a_file_of_another_kind(tmp_path, content):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        read_libsvm_model(path)


def test_a_missing_file_is_a_system_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_libsvm_model(tmp_path / "none")

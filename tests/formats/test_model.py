"""Model files: what was fitted comes back bit for bit, and no file whatever does harm."""

from __future__ import annotations

import json
import os
import random

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import dualgap
from dualgap.formats import model as model_file
from dualgap.kernels.functions import Kernel
from dualgap.result import History, Status
from dualgap.tensors import ModelFileError, read_tensors, write_tensors

CLASSIFIERS = [dualgap.SVC, dualgap.NuSVC]
OTHERS = [dualgap.SVR, dualgap.NuSVR, dualgap.OneClassSVM, dualgap.SVDD]
LABELS = {
    "binary": np.array([-1.0, 1.0]),
    "three": np.array([3, 5, 9]),
    "text": np.array(["ash", "élan", "oak"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "small": np.array([0, 7, 200], dtype=np.uint8),
    "truth": np.array([False, True]),
    "single": np.array([1.0, 2.0], dtype=np.float32),
}


def samples(dtype=np.float64, n=45, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(dtype)


def targets(X, labels=None):
    score = X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=len(X))
    if labels is None:
        return score
    return labels[np.argsort(np.argsort(score)) * len(labels) // len(X)]


def fitted(cls, X, y=None, **params):
    params.setdefault("gap_tol", 1e-3)
    if cls is dualgap.NuSVC:
        params.setdefault("nu", 0.3)
    if sp.issparse(X) or y is not None:
        return cls(**params).fit(X, y)
    labels = LABELS["binary"] if cls in CLASSIFIERS else None
    return cls(**params).fit(X, targets(X, labels))


def outputs(model, X):
    names = ("predict", "decision_function", "score_samples")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


def assert_same(loaded, model, X):
    """Everything that the fit has left is equal, in value and in type."""
    assert type(loaded) is type(model)
    expected, found = outputs(model, X), outputs(loaded, X)
    for name, values in expected.items():
        assert_array_equal(found[name], values, strict=values.dtype.kind != "U", err_msg=name)
    kept = {name for name in vars(model) if name.endswith("_") or name.startswith("_")}
    assert kept == {name for name in vars(loaded) if name.endswith("_") or name.startswith("_")}
    for name in kept:
        one, two = getattr(loaded, name), getattr(model, name)
        if sp.issparse(two):
            assert type(one) is type(two)
            assert one.dtype == two.dtype
            one, two = one.toarray(), two.toarray()
        if isinstance(two, np.ndarray):
            assert_array_equal(one, two, err_msg=name)
            assert one.dtype.kind == two.dtype.kind
        elif isinstance(two, History):
            # repr, because a gap that is NaN is not equal to itself
            assert repr(one) == repr(two)
        else:
            assert type(one) is type(two)
            assert repr(one) == repr(two)
    if hasattr(model, "n_support_"):
        assert_array_equal(loaded.n_support_, model.n_support_, strict=True)
    expected_params, found_params = model.get_params(), loaded.get_params()
    expected_params["callback"] = None
    assert found_params == expected_params


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dualgap"


def round_trip(model, path):
    dualgap.save(model, path)
    return dualgap.load(path)


# -- what comes back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("labels", ["binary", "three", "text"])
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_classifiers_come_back(path, cls, labels, layout, dtype):
    X = samples(dtype)
    model = fitted(cls, layout(X), targets(X, LABELS[labels]))
    assert_same(round_trip(model, path), model, layout(samples(dtype, 30, 7)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("cls", OTHERS)
def test_others_come_back(path, cls, layout, dtype):
    X = samples(dtype)
    model = fitted(cls, layout(X), targets(X))
    assert_same(round_trip(model, path), model, layout(samples(dtype, 30, 7)))


@pytest.mark.parametrize("labels", LABELS)
def test_labels_keep_their_type(path, labels):
    X = samples()
    model = fitted(dualgap.SVC, X, targets(X, LABELS[labels]))
    loaded = round_trip(model, path)
    assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
    assert_same(loaded, model, X)


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "laplacian", "chi2"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_kernels_come_back(path, kernel, layout):
    X = layout(np.abs(samples()))
    # No gap to reach with sigmoid: it is indefinite.
    params = {"kernel": kernel, "degree": 2, "coef0": 0.5, "gamma": 0.1, "gap_tol": None}
    model = fitted(dualgap.SVR, X, targets(samples()), **params)
    assert_same(round_trip(model, path), model, X)


@pytest.mark.parametrize("cls", CLASSIFIERS + OTHERS)
def test_precomputed_kernels_come_back(path, cls):
    X = samples()
    matrix = dualgap.make_gram(X, Kernel("rbf", gamma=0.5)).rows(np.arange(len(X)))
    y = targets(X, LABELS["three"]) if cls in CLASSIFIERS else targets(X)
    model = cls(kernel="precomputed", gap_tol=1e-3, **({"nu": 0.3} if cls is dualgap.NuSVC else {})).fit(matrix, y)
    assert_same(round_trip(model, path), model, matrix[:20])


def test_class_weights_of_numbers_and_solver_options_come_back(path):
    X = samples()
    model = fitted(
        dualgap.SVC,
        X,
        targets(X, LABELS["three"]),
        class_weight={np.int64(3): 2.0, 9: np.float32(0.5)},
        solver_options={"variant": "keerthi2", "cache": "element"},
        solver="smo",
        decision_function_shape="ovo",
        cache_size=np.int64(50),
    )
    assert_same(round_trip(model, path), model, X)


def test_feature_names_come_back(path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(samples(), columns=["width", "höhe", "a b", "d"])
    model = fitted(dualgap.SVC, X, targets(X.to_numpy(), LABELS["binary"]))
    loaded = round_trip(model, path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.feature_names_in_.tolist() == ["width", "höhe", "a b", "d"]


def test_a_model_without_support_vectors_comes_back(path):
    X = samples()
    model = dualgap.SVR(epsilon=100.0).fit(X, targets(X))
    assert model.support_.size == 0
    assert_same(round_trip(model, path), model, X)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    ("cls", "labels", "params"),
    [
        (dualgap.LinearSVC, "binary", {}),
        (dualgap.LinearSVC, "text", {"loss": "hinge", "fit_intercept": False}),
        (dualgap.LinearSVC, "three", {"penalty": "l1"}),
        (dualgap.LinearSVC, "three", {"multi_class": "crammer_singer"}),
        (dualgap.LinearSVC, "objects", {"multi_class": "crammer_singer"}),
        (dualgap.LinearSVR, None, {"penalize_intercept": False}),
        (dualgap.LinearSVR, None, {"fit_intercept": False, "loss": "squared_epsilon_insensitive"}),
        (dualgap.LinearOneClassSVM, None, {"nu": 0.2}),
        (dualgap.LinearSVDD, None, {"C": 0.1}),
    ],
)
def test_linear_machines_come_back(path, cls, labels, params, layout):
    X = samples() + 2.0
    model = cls(**params).fit(layout(X), targets(X, labels and LABELS[labels]))
    assert_same(round_trip(model, path), model, layout(samples(n=30, seed=7)))


def test_sparsified_weights_come_back(path):
    X = samples()
    model = dualgap.LinearSVC(penalty="l1", C=0.3).fit(X, targets(X, LABELS["three"])).sparsify()
    assert_same(round_trip(model, path), model, X)


@pytest.mark.parametrize("labels", ["binary", "text"])
@pytest.mark.parametrize("params", [{"approximation": "sgma", "rank": 12}, {"multi_class": "ovr"}])
def test_approximations_and_machines_against_the_rest_come_back(path, labels, params):
    X = samples()
    model = fitted(dualgap.SVC, X, targets(X, LABELS[labels]), **params)
    assert_same(round_trip(model, path), model, X)


@pytest.mark.parametrize(
    ("cls", "labels"),
    [(dualgap.SVR, None), (dualgap.SVC, "three"), (dualgap.LinearSVC, "binary"), (dualgap.LinearSVR, None)],
)
def test_a_semi_parametric_model_comes_back_with_its_functions(path, cls, labels):
    X = samples()
    functions = [lambda X: X[:, 0], lambda X: X[:, 1] ** 2]
    model = cls(parametric=functions).fit(X, targets(X, labels and LABELS[labels]))
    dualgap.save(model, path)
    loaded = dualgap.load(path, parametric=functions)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.parametric_coef_, model.parametric_coef_)
    with pytest.raises(ModelFileError, match=r"2 parametric functions.*load\(path, parametric="):
        dualgap.load(path)
    with pytest.raises(ModelFileError, match="not 1"):
        dualgap.load(path, parametric=functions[:1])
    dualgap.save(cls().fit(X, targets(X, labels and LABELS[labels])), path)
    with pytest.raises(ModelFileError, match="without parametric"):
        dualgap.load(path, parametric=functions)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize(("labels", "params"), [("binary", {}), ("three", {}), ("text", {"multi_class": "ovr"})])
def test_probabilities_come_back(path, labels, params, calibration):
    X = samples()
    model = fitted(
        dualgap.SVC,
        X,
        targets(X, LABELS[labels]),
        probability=True,
        calibration=calibration,
        calibration_cv=3,
        **params,
    )
    loaded = round_trip(model, path)
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_what_gives_probabilities_comes_back(path):
    X = samples()
    model = fitted(dualgap.SVC, X, targets(X, LABELS["three"]))
    model.probA_, model.probB_ = np.array([-1.0, -2.0, -3.0]), np.array([0.1, 0.2, 0.3])
    steps = [(np.sort(np.random.default_rng(i).normal(size=i + 2)), np.linspace(0, 1, i + 2)) for i in range(3)]
    model.calibration_thresholds_ = steps
    loaded = round_trip(model, path)
    assert_array_equal(loaded.probA_, model.probA_)
    assert_array_equal(loaded.probB_, model.probB_)
    for found, expected in zip(loaded.calibration_thresholds_, steps, strict=True):
        assert_array_equal(found[0], expected[0])
        assert_array_equal(found[1], expected[1])
    arrays, metadata = read_tensors(path)
    for name, wrong in (
        ("probA", np.zeros(2)),
        ("probB", np.zeros(0)),
        ("calibration_lengths", np.array([2, 3, 5])),
        ("calibration_lengths", np.array([9, 0, 0])),
        ("calibration_steps", arrays["calibration_steps"][:, ::-1]),
        ("calibration_steps", arrays["calibration_steps"] * 2.0),
    ):
        write_tensors(path, arrays | {name: np.ascontiguousarray(wrong)}, metadata)
        assert "array" in complaint(path)


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *OTHERS, dualgap.LinearSVC, dualgap.LinearSVDD])
def test_the_safetensors_package_reads_the_file(path, cls):
    safetensors = pytest.importorskip("safetensors", reason="the safetensors package is not installed")
    X = samples()
    classifier = cls in CLASSIFIERS or cls is dualgap.LinearSVC
    model = fitted(cls, X, targets(X, LABELS["three"] if classifier else None))
    dualgap.save(model, path)
    arrays, metadata = read_tensors(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata() == metadata
        assert json.loads(file.metadata()["params"])["gap_tol"] == 1e-3
        assert set(file.keys()) == set(arrays)
        for name, array in arrays.items():
            assert_array_equal(file.get_tensor(name), array, strict=True)


def test_status_and_certificate_of_an_unfinished_run_come_back(path):
    X = samples()
    model = dualgap.SVC(gap_tol=1e-12, max_iter=3)
    with pytest.warns(UserWarning, match="ended short"):
        model.fit(X, targets(X, LABELS["text"]))
    loaded = round_trip(model, path)
    assert loaded.status_ is Status.MAX_ITER
    assert loaded.fit_status_ == 1
    assert loaded.certificates_ == model.certificates_


def test_an_indefinite_kernel_keeps_its_note(path):
    X = samples()
    model = fitted(dualgap.SVC, X, kernel="sigmoid", gamma=1.0, coef0=-2.0, gap_tol=None)
    loaded = round_trip(model, path)
    assert model.certificate_.note
    assert loaded.certificate_.note == model.certificate_.note
    assert np.isnan(loaded.certificate_.gap)


def test_a_loaded_model_can_be_saved_and_fitted_again(path):
    model = fitted(dualgap.SVC, samples())
    loaded = round_trip(model, path)
    before = path.read_bytes()
    dualgap.save(loaded, path)
    assert path.read_bytes() == before
    assert_same(loaded.fit(samples(), targets(samples(), LABELS["binary"])).set_params(), loaded, samples())


# -- what cannot be stored -----------------------------------------------------------------------------------


def test_a_callback_is_dropped(path):
    model = fitted(dualgap.SVC, samples(), callback=lambda event: None)
    assert round_trip(model, path).callback is None


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"kernel": lambda X, Z: X @ Z.T}, "kernel="),
        ({"solver_options": {"shrinking": np.array([True])}}, "solver_options holds"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_by_name(path, params, named):
    model = fitted(dualgap.SVR, samples())
    model.set_params(**params)
    with pytest.raises(ValueError, match=named) as caught:
        dualgap.save(model, path)
    assert "joblib.dump" in str(caught.value)
    assert os.listdir(path.parent) == []


def test_functions_set_after_the_fit_are_refused(path):
    model = fitted(dualgap.SVR, samples()).set_params(parametric=[lambda X: X[:, 0]])
    with pytest.raises(ValueError, match="fit it again"):
        dualgap.save(model, path)


def test_a_fitted_callable_kernel_is_refused(path):
    model = dualgap.SVC(kernel=lambda X, Z: X @ Z.T).fit(samples(), targets(samples(), LABELS["binary"]))
    with pytest.raises(ValueError, match=r"kernel=.*precomputed"):
        dualgap.save(model, path)


@pytest.mark.parametrize("thing", [dualgap.SVC(), type("SVC", (dualgap.SVC,), {})(), object()])
def test_only_our_fitted_estimators_are_saved(path, thing):
    with pytest.raises(ValueError, match=r"not fitted|one of SVC"):
        dualgap.save(thing, path)


def test_a_kernel_changed_after_the_fit_is_refused(path):
    model = fitted(dualgap.SVC, samples()).set_params(kernel="linear")
    with pytest.raises(ValueError, match="fit it again"):
        dualgap.save(model, path)


def test_a_missing_file_is_a_system_error(path):
    with pytest.raises(FileNotFoundError):
        dualgap.load(path)


# -- files that are wrong ------------------------------------------------------------------------------------


def complaint(path):
    with pytest.raises(ModelFileError) as caught:
        dualgap.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300
    return message


@pytest.fixture
def parts(path):
    """Arrays and metadata of a good file, to be spoiled and written back."""
    X = samples()
    dualgap.save(fitted(dualgap.SVC, sp.csr_matrix(X), targets(X, LABELS["three"])), path)
    return read_tensors(path)


def spoiled(metadata, topic, **changes):
    value = json.loads(metadata[topic])
    for key, change in changes.items():
        if change is ...:
            del value[key]
        else:
            value[key] = change
    return metadata | {topic: json.dumps(value)}


@pytest.mark.parametrize(
    ("topic", "changes", "words"),
    [
        ("params", {"C": -1.0}, "params are none of SVC"),
        ("params", {"C": "os.system('true')"}, "params are none of SVC"),
        ("params", {"unheard": 1}, "params are none of SVC"),
        ("params", {"callback": None}, "hold a function"),
        ("params", {"kernel": "rbf; drop"}, "params are none of SVC"),
        ("params", {"class_weight": [[1, 2, 3]]}, "class_weight"),
        ("params", {"class_weight": [[[], 2]]}, "class_weight"),
        ("kernel", {"name": "linear"}, "fitted kernel"),
        ("kernel", {"gamma": -1.0}, "out of range"),
        ("kernel", {"gamma": float("nan")}, "not finite"),
        ("kernel", {"gamma": True}, "not a number"),
        ("kernel", {"degree": 10**400}, "not finite"),
        ("kernel", {"degree": 10**9}, "out of range"),
        ("kernel", {"coef0": ...}, "not a number"),
        ("fit", {"shape": [45]}, "shape"),
        ("fit", {"shape": [45, 5]}, "do not fit together"),
        ("fit", {"shape": [1, 4]}, "outside 0 to 0"),
        ("fit", {"features": True}, "natural"),
        ("fit", {"names": ["one"]}, "4 are expected"),
        ("fit", {"names": [1, 2, 3, 4]}, "list of texts"),
        ("fit", {"vectors": "pickle"}, "layout"),
        ("fit", {"vectors": ["csr"]}, "layout"),
        ("fit", {"vectors": "dense"}, "'support_vectors' is missing"),
        ("fit", {"notes": []}, "3 are expected"),
        ("fit", {"status": "FINE"}, "status"),
        ("fit", {"solver": None}, "solver"),
        ("fit", {"classes": None}, "class labels"),
        ("fit", {"classes": {"type": "int8"}}, None),
        ("fit", {"classes": {"type": "float64"}}, "dtype"),
        ("fit", {"classes": {"type": "str", "labels": ["b", "a", "c"]}}, "order"),
        ("fit", {"classes": {"type": "str", "labels": ["a"]}}, "classes"),
    ],
)
def test_text_that_is_wrong(path, parts, topic, changes, words):
    arrays, metadata = parts
    write_tensors(path, arrays, spoiled(metadata, topic, **changes))
    if words is None:
        assert dualgap.load(path).classes_.dtype == np.int8
    else:
        assert words in complaint(path)


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("format", "pt", "format"),
        ("version", "2", "version '2'"),
        ("estimator", "Pipeline", "not one of"),
        ("estimator", "SVDD", "params are none of SVDD"),
        ("params", "[]", "not a JSON object"),
        ("params", "{", "not JSON"),
        ("params", "1" * 10_000, "not JSON"),
        ("fit", "[" * 100_000, "nested too deeply"),
        ("params", '{"C": ' + "[" * 500 + "]" * 500 + "}", "params are none"),
    ],
)
def test_metadata_that_is_wrong(path, parts, key, text, words):
    arrays, metadata = parts
    write_tensors(path, arrays, metadata | {key: text})
    assert words in complaint(path)
    write_tensors(path, arrays, {name: value for name, value in metadata.items() if name != key})
    assert f"has no {key!r}" in complaint(path)


def test_every_array_is_needed_and_no_other_is_taken(path, parts):
    arrays, metadata = parts
    for name in arrays:
        write_tensors(path, {key: value for key, value in arrays.items() if key != name}, metadata)
        assert "missing" in complaint(path)
    write_tensors(path, arrays | {"more": np.zeros(1)}, metadata)
    assert "'more' belongs to no SVC" in complaint(path)


def test_arrays_of_wrong_types_shapes_and_values(path, parts):
    arrays, metadata = parts
    for name, array in arrays.items():
        for wrong in (array.astype(np.uint8), array.reshape(-1)[:-1], array[..., None], np.zeros(0)):
            write_tensors(path, arrays | {name: wrong}, metadata)
            assert "array '" in complaint(path)
        free = array.dtype.kind == "i" and (name in ("history_counts", "classes"))
        if not free and name not in ("history_values", "certificates"):
            wrong = array.copy()
            wrong.reshape(-1)[-1] = -1 if array.dtype.kind == "i" else np.inf
            write_tensors(path, arrays | {name: wrong}, metadata)
            complaint(path)


def test_rows_that_are_cut_wrongly(path, parts):
    arrays, metadata = parts
    pointers = arrays["support_vectors.indptr"].copy()
    pointers[1], pointers[2] = pointers[2], pointers[1]
    write_tensors(path, arrays | {"support_vectors.indptr": pointers}, metadata)
    assert "into rows" in complaint(path)


def test_a_file_of_another_kind(path):
    write_tensors(path, {"weight": np.zeros(3)}, {})
    assert "not a dualgap model" in complaint(path)
    path.write_text("1 1:2 2:3\n")
    complaint(path)


def models_to_spoil():
    X = samples(n=24)
    yield fitted(dualgap.SVC, sp.csr_matrix(X), targets(X, LABELS["text"])), sp.csr_matrix(X)
    yield fitted(dualgap.NuSVC, X, targets(X, LABELS["three"])), X
    yield fitted(dualgap.SVDD, X, kernel="poly"), X
    matrix = X @ X.T
    yield fitted(dualgap.NuSVR, matrix, targets(X), kernel="precomputed"), matrix


def attempt(path, X):
    """Load; where that works, so does prediction for data of the right width."""
    try:
        model = dualgap.load(path)
    except ModelFileError:
        return False
    if model.n_features_in_ == X.shape[1]:
        with np.errstate(all="ignore"):
            assert len(model.predict(X)) == X.shape[0]
    return True


def test_truncation_and_mutation_give_an_error_or_a_working_model(path):
    chance = random.Random(20)
    accepted = refused = 0
    for model, X in models_to_spoil():
        dualgap.save(model, path)
        whole = path.read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little")
        for _ in range(25):
            path.write_bytes(whole[: chance.randrange(len(whole))])
            assert not attempt(path, X)
        for number in range(140):
            spoilt = bytearray(whole)
            for _ in range(chance.choice([1, 1, 1, 4])):
                # Most of the structure is in the header: half of the changes go there.
                at = chance.randrange(8, header) if number % 2 else chance.randrange(len(whole))
                spoilt[at] = chance.choice([spoilt[at] ^ (1 << chance.randrange(8)), *b'0917"-e,[{'])
            path.write_bytes(spoilt)
            if attempt(path, X):
                accepted += 1
            else:
                refused += 1
    assert accepted > 20
    assert refused > 100


def test_the_names_in_the_file_are_those_of_the_estimators():
    names = ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD"]
    linear = ["LinearSVC", "LinearSVR", "LinearOneClassSVM", "LinearSVDD"]
    assert list(model_file.ESTIMATORS) == names + linear

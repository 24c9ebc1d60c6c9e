"""Signatures, tags, attributes and input of scikit-learn's support vector machines, held against the installed ones."""

import html
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
import sklearn.svm
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import dualgap

NAMES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC", "LinearSVR")
ALL = (*NAMES, "SVDD", "LinearOneClassSVM", "LinearSVDD")
X, Y = load_iris(return_X_y=True)


def both(name, **parameters):
    return getattr(dualgap, name)(**parameters), getattr(sklearn.svm, name)(**parameters)


@pytest.mark.parametrize("name", NAMES)
def test_parameters(name):
    """The same names with the same defaults in the same order; what is added can only be given by name."""
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (dualgap, sklearn.svm))
    shared = [key for key in theirs if key in ours]
    assert shared == list(theirs)
    assert [key for key in ours if key in theirs] == shared
    for key in shared:
        assert ours[key].kind == theirs[key].kind, key
        if key != "probability":  # scikit-learn from 1.8 on deprecates it, and False has another name there
            assert ours[key].default == theirs[key].default, key
    for key in set(ours) - set(theirs):
        assert ours[key].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", NAMES)
def test_tags_and_requests(name):
    ours, theirs = both(name)
    assert get_tags(ours) == get_tags(theirs)
    assert [m for m in dir(ours) if m.endswith("_request")] == [m for m in dir(theirs) if m.endswith("_request")]


def looks(value, name):
    """Type, shape, dtype and whether it can be written to; how many support vectors there are is not compared."""
    counted = name in ("support_", "support_vectors_", "dual_coef_", "n_support_")
    shape = np.shape(value) if not sp.issparse(value) else value.shape
    data = value.data if sp.issparse(value) else value
    writeable = data.flags.writeable if isinstance(data, np.ndarray) else None
    return type(value), len(shape) if counted else shape, getattr(value, "dtype", None), writeable


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csr_array], ids=["dense", "matrix", "array"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_attributes(name, classes, layout):
    parameters = {"kernel": "linear"} if not name.startswith("Linear") else {}
    y = np.minimum(Y, classes - 1).astype(float if name.endswith("R") else int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # LIBLINEAR's
        warnings.simplefilter("ignore", FutureWarning)
        ours, theirs = (model.fit(layout(X), y) for model in both(name, **parameters))
        fitted = [a for a in dir(theirs) if a.endswith("_") and a[0] != "_" and a[:4] != "prob" and hasattr(theirs, a)]
    assert len(fitted) >= 4
    for attribute in fitted:
        assert looks(getattr(ours, attribute), attribute) == looks(getattr(theirs, attribute), attribute), attribute
    for method in ("predict", "decision_function", "score_samples"):
        assert hasattr(ours, method) == hasattr(theirs, method)
        if hasattr(theirs, method):
            mine, other = (getattr(model, method)(layout(X)) for model in (ours, theirs))
            assert (mine.dtype, mine.shape) == (other.dtype, other.shape)


@pytest.mark.parametrize("name", ["SVC", "LinearSVC", "OneClassSVM"])
def test_certificate_in_notebooks(name):
    model = getattr(dualgap, name)()
    assert "dualgap-certificate" not in model._repr_html_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    shown = model._repr_html_()
    assert shown.partition('<table class="dualgap')[2] in model._repr_mimebundle_()["text/html"]
    assert f"{model.certificate_.relative_gap:.2e}" in shown
    assert model.status_.name in shown
    assert shown.index("dualgap-certificate") > shown.index(name)
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}


def test_what_notebooks_show_is_escaped():
    from dataclasses import replace

    model = dualgap.SVC().fit(X, Y)
    model.certificate_ = replace(model.certificate_, note="<script>alert('no')</script>")
    shown = model._repr_html_()
    assert "<script>alert" not in shown
    assert html.escape("<script>alert('no')</script>") in shown


@pytest.mark.parametrize("name", ALL)
def test_polars(name):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(X, schema=["a", "b", "c", "d"])
    model = getattr(dualgap, name)().fit(frame, polars.Series(Y))
    plain = getattr(dualgap, name)().fit(X, Y)
    assert_array_equal(model.predict(frame), plain.predict(X))
    if not hasattr(sklearn.svm.SVC().fit(frame, Y), "feature_names_in_"):
        return  # names of columns are scikit-learn's business, and an older one does not know this library
    assert_array_equal(model.feature_names_in_, ["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename({"a": "z"}))


ARRAY_API = """
import array_api_strict as xp, numpy as np, sklearn, dualgap
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
for name in {names}:
    plain = getattr(dualgap, name)().fit(X, y, sample_weight=np.ones(len(y)))
    for dispatch in (False, True):
        with sklearn.config_context(array_api_dispatch=dispatch):
            points = xp.asarray(X)
            model = getattr(dualgap, name)().fit(points, xp.asarray(y), sample_weight=xp.asarray(np.ones(len(y))))
            for method in ("predict", "decision_function", "score_samples"):
                if hasattr(model, method):
                    found = getattr(model, method)(points)
                    assert isinstance(found, np.ndarray) != dispatch, (name, method, type(found))
                    assert np.array_equal(np.asarray(found), getattr(plain, method)(X)), (name, method)
            if hasattr(model, "score"):
                assert abs(float(model.score(points, xp.asarray(y))) - plain.score(X, y)) < 1e-12
            assert isinstance(model.intercept_, np.ndarray)
"""


def test_array_api():
    """In a process of its own: SciPy decides on the array API when it is imported."""
    pytest.importorskip("array_api_strict")
    if importlib.util.find_spec("sklearn.externals.array_api_compat") is None:  # older versions ask for it
        pytest.importorskip("array_api_compat")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ARRAY_API.format(names=ALL)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ALL)
def test_pickled_and_searched(name):
    model = getattr(dualgap, name)().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(model, "set_output")  # machines transform nothing
    key = {"N": "nu", "O": "nu"}.get(name[0], "nu" if "OneClass" in name else "C")
    searched = make_pipeline(StandardScaler(), getattr(dualgap, name)())
    if hasattr(model, "score"):
        search = GridSearchCV(searched, {f"{name.lower()}__{key}": [0.2, 0.3]}, cv=2, error_score="raise").fit(X, Y)
        assert search.cv_results_["mean_test_score"].shape == (2,)


def test_metadata_is_routed():
    weight = np.where(Y == 0, 2.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = dualgap.SVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        routed = GridSearchCV(model, {"C": [1.0]}, cv=3).fit(X, Y, sample_weight=weight)
    direct = dualgap.SVC().fit(X, Y, sample_weight=weight)
    assert_array_equal(routed.best_estimator_.decision_function(X), direct.decision_function(X))
    assert not np.array_equal(direct.decision_function(X), dualgap.SVC().fit(X, Y).decision_function(X))


def test_warnings_point_at_the_caller():
    for model in (dualgap.SVC(max_iter=1), dualgap.SVR(max_iter=1), dualgap.LinearSVC(max_iter=1, C=1e6)):
        with pytest.warns(ConvergenceWarning) as told:
            model.fit(X, Y)
        assert told[0].filename == __file__

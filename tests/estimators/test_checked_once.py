"""What a fit checks of parameters and samples: all that scikit-learn does, no more often than needed."""

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils._param_validation import validate_parameter_constraints

import dualgap
from dualgap.estimators import base, certified, linear_base
from dualgap.estimators.plain_arrays import plain
from dualgap.run import _taken
from dualgap.solvers import SOLVERS, smo

ESTIMATORS = (
    dualgap.SVC,
    dualgap.NuSVC,
    dualgap.SVR,
    dualgap.NuSVR,
    dualgap.OneClassSVM,
    dualgap.SVDD,
    dualgap.LinearSVC,
    dualgap.LinearSVR,
)
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_defaults_are_valid(estimator):
    model = estimator()
    names = sorted(set(inspect.signature(estimator.__init__).parameters) - {"self"})
    assert estimator._get_param_names() == names
    validate_parameter_constraints(model._parameter_constraints, model.get_params(deep=False), estimator.__name__)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_other_values_are_validated(estimator):
    model = estimator(tol=-1.0)
    with pytest.raises(ValueError, match=f"The 'tol' parameter of {estimator.__name__} must be"):
        model.fit(X, Y)
    clone(model).set_params(tol=1e-2).fit(X, Y)


def test_defaults_of_a_class_of_ones_own():
    class Mine(dualgap.SVC):
        def __init__(self, *, C=-1.0, kernel="rbf"):
            super().__init__(C=C, kernel=kernel)

        def _keep_parameters(self, arguments):
            for name in dualgap.SVC._get_param_names():
                setattr(self, name, arguments[name])

    assert Mine._get_param_names() == ["C", "kernel"]
    with pytest.raises(ValueError, match="The 'C' parameter of Mine"):
        Mine().fit(X, Y)
    assert Mine(C=1.0).fit(X, Y).score(X, Y) > 0.8


def test_a_fit_inspects_no_signature(monkeypatch):
    dualgap.SVC().fit(X, Y)
    calls = []
    monkeypatch.setattr(certified, "signature", lambda *a: calls.append(a))
    dualgap.SVC(C=2.0).fit(X, Y)
    assert calls == []


@pytest.mark.parametrize(
    ("samples", "labels", "expected"),
    [
        (X, Y, True),
        (X.astype(np.float32), Y.astype(float), True),
        (X, Y > 0, True),
        (np.asfortranarray(X), Y, False),
        (X.astype(">f8"), Y, False),
        (X.astype(int), Y, False),
        (X.tolist(), Y, False),
        (sp.csr_matrix(X), Y, True),
        (sp.csr_array(X.astype(np.float32)), Y, True),
        (sp.csc_matrix(X), Y, False),
        (sp.csr_matrix(X > 0), Y, False),
        (sp.csr_matrix(np.where(np.arange(40)[:, None] == 0, np.nan, X)), Y, False),
        (sp.csr_array(X[0]), Y, False),
        (pd.DataFrame(X), Y, False),
        (X[0], Y, False),
        (X[:, :0], Y, False),
        (X, Y[:-1], False),
        (X, Y.reshape(-1, 1), False),
        (X, Y.astype(str), False),
        (X, None, False),
        (np.where(np.arange(40)[:, None] == 0, np.nan, X), Y, False),
        (np.where(np.arange(40)[:, None] == 0, np.inf, X), Y, False),
        (X, np.where(np.arange(40) == 3, np.nan, Y), False),
        (np.full((40, 3), 1e308), Y, False),
    ],
)
def test_plain(samples, labels, expected):
    assert plain(samples, labels) is expected


@pytest.mark.parametrize("samples", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("estimator", [dualgap.SVC, dualgap.LinearSVC, dualgap.SVR, dualgap.LinearSVR])
def test_both_ways_give_one_model(estimator, samples, monkeypatch):
    quick = estimator().fit(samples, Y)
    for module in (base, linear_base):
        monkeypatch.setattr(module, "plain", lambda X, y: False)
    slow = estimator().fit(samples, Y)
    assert quick.n_features_in_ == slow.n_features_in_ == 3
    assert np.array_equal(quick.predict(X), slow.predict(X))
    assert quick.certificate_ == slow.certificate_


@pytest.mark.parametrize("make", [np.ascontiguousarray, sp.csr_matrix])
@pytest.mark.parametrize("estimator", [dualgap.SVC, dualgap.LinearSVC, dualgap.LinearSVR])
def test_names_of_an_earlier_fit_are_forgotten(estimator, make):
    model = estimator().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    model.fit(make(X[:, :2]), Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(X)


def test_what_is_wrong_with_samples_is_still_said():
    with pytest.raises(ValueError, match="contains NaN"):
        dualgap.SVC().fit(np.where(np.arange(40)[:, None] == 0, np.nan, X), Y)
    with pytest.raises(ValueError, match="Precomputed matrix must be a square matrix"):
        dualgap.SVC(kernel="precomputed").fit(X, Y)
    with pytest.raises(ValueError, match="Negative values"):
        dualgap.SVC(kernel="chi2").fit(X, Y)


def test_settings_are_taken_by_solvers_that_have_them():
    offered = {"n_jobs": 3, "shrinking": False}
    taken = {name: _taken(offered, SOLVERS[name], name) for name in ("smo", "newton", "dcd")}
    assert taken == {"smo": {"shrinking": False}, "newton": {"n_jobs": 3}, "dcd": {"shrinking": False}}


def test_what_is_asked_for_goes_before_what_is_offered(monkeypatch):
    seen = []
    solve = smo.solve
    monkeypatch.setattr(
        smo, "solve", lambda p, options, *more: seen.append(options.shrinking) or solve(p, options, *more)
    )
    for options in (None, {"shrinking": True}):
        dualgap.SVC(solver="smo", shrinking=False, solver_options=options).fit(X, Y)
    assert seen == [False, True]

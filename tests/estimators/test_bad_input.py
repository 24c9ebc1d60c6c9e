"""Bad input of every kind: the exception scikit-learn's users expect, and a message that names the thing."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from dualgap import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM

ALL = (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD)
CLASSIFIERS, REGRESSORS = (SVC, NuSVC), (SVR, NuSVR)
SUPERVISED = CLASSIFIERS + REGRESSORS
WITH_C, WITH_NU = (SVC, SVR, NuSVR, SVDD), (NuSVC, NuSVR, OneClassSVM)

N = 20
X = np.random.default_rng(0).normal(size=(N, 3))
Y = np.arange(N) % 2
ONES = np.ones(N)
K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))


def at(array, value):
    """A copy with one entry replaced."""
    array = np.array(array, dtype=float)
    array.flat[4] = value
    return array


def fit(data=X, y=Y, sample_weight=None):
    return lambda model: model.fit(data, y, sample_weight=sample_weight)


def predict(data, fitted_to=X):
    return lambda model: model.fit(fitted_to, Y).predict(data)


def wrong_shape(A, B):
    return np.ones((A.shape[0], B.shape[0] + 1))


def not_a_number(A, B):
    return np.full((A.shape[0], B.shape[0]), np.nan)


def rarely_a_number(A, B):
    distance = np.abs(A[:, None] - B[None]).sum(axis=2)
    return np.where(distance < 4.0, np.exp(-distance), np.nan)


def named(parameter, value):
    """scikit-learn's message for a parameter out of range."""
    return rf"The '{parameter}' parameter of {{name}} must be .* Got {re.escape(repr(value))} instead"


# name of the case: (classes, parameters, what is done, exception, message); {name} is the class's name
CASES = {
    # -- the samples
    "NaN": (ALL, {}, fit(at(X, np.nan)), ValueError, "Input X contains NaN"),
    "inf": (ALL, {}, fit(at(X, np.inf)), ValueError, "Input X contains infinity"),
    "no samples": (ALL, {}, fit(X[:0], Y[:0]), ValueError, r"0 sample\(s\).*minimum of 1 is required by {name}"),
    "no features": (ALL, {}, fit(X[:, :0]), ValueError, r"0 feature\(s\).*minimum of 1 is required by {name}"),
    "one dimension": (ALL, {}, fit(X[:, 0]), ValueError, r"Expected 2D array, got 1D array.*[Rr]eshape"),
    "three dimensions": (ALL, {}, fit(X[None]), ValueError, r"dim 3.*{name}"),
    "a scalar": (ALL, {}, fit(3.0), ValueError, "Expected 2D array, got scalar array"),
    "text": (ALL, {}, fit(np.full((N, 3), "red")), ValueError, "could not convert string to float.*red"),
    "complex": (ALL, {}, fit(X + 1j), ValueError, "Complex data not supported"),
    "sparse NaN": (ALL, {}, fit(sp.csr_matrix(at(X, np.nan))), ValueError, "Input X contains NaN"),
    # -- the targets
    "y too short": (SUPERVISED, {}, fit(y=Y[:-1]), ValueError, r"inconsistent numbers of samples.*20.*19"),
    "y None": (SUPERVISED, {}, fit(y=None), ValueError, "requires y to be passed, but the target y is None"),
    "y with two columns": (SUPERVISED, {}, fit(y=np.c_[Y, Y]), ValueError, r"y should be a 1d array.*\(20, 2\)"),
    "y NaN": (SUPERVISED, {}, fit(y=at(Y, np.nan)), ValueError, "Input y contains NaN"),
    "y inf": (SUPERVISED, {}, fit(y=at(Y, np.inf)), ValueError, "Input y contains infinity"),
    "y text": (REGRESSORS, {}, fit(y=["a", "b"] * 10), ValueError, "could not convert string to float"),
    "y huge": (REGRESSORS, {}, fit(y=Y * 1e308), ValueError, "targets are too large.*[Ss]cale"),
    "y continuous": (CLASSIFIERS, {}, fit(y=X[:, 0]), ValueError, "Unknown label type: continuous.*discrete classes"),
    "one class": (CLASSIFIERS, {}, fit(y=ONES), ValueError, "number of classes.*greater than one; got 1 class"),
    # -- the weights
    "weights negative": (ALL, {}, fit(sample_weight=-ONES), ValueError, "all samples have zero or negative weights"),
    "weights zero": (ALL, {}, fit(sample_weight=0 * ONES), ValueError, "all samples have zero or negative weights"),
    "weights of one class": (
        CLASSIFIERS, {}, fit(sample_weight=np.where(Y, 1.0, -1.0)), ValueError,
        "all but one class have zero or negative weights",
    ),
    "weights too few": (
        ALL, {}, fit(sample_weight=ONES[1:]), ValueError, r"sample_weight.*\(19,\) vs \(20,\); pass one weight a sample"
    ),
    "weights as column": (ALL, {}, fit(sample_weight=ONES[:, None]), ValueError, r"sample_weight.*\(20, 1\).*\(20,\)"),
    "no weights": (ALL, {}, fit(sample_weight=[]), ValueError, r"sample_weight.*\(0,\).*\(20,\)"),
    "weights NaN": (ALL, {}, fit(sample_weight=at(ONES, np.nan)), ValueError, "Input sample_weight contains NaN"),
    "weights inf": (ALL, {}, fit(sample_weight=at(ONES, np.inf)), ValueError, "Input sample_weight contains infinity"),
    "weights text": (ALL, {}, fit(sample_weight=["much"] * N), ValueError, "could not convert string to float.*much"),
    "class_weight negative": (CLASSIFIERS, {"class_weight": {0: -2}}, fit(), ValueError, r"class_weight.*negative.*-2"),
    "class_weight unknown": (CLASSIFIERS, {"class_weight": {7: 1}}, fit(), ValueError, r"\[0, 1\].*class_weight"),
    "class_weight text": (
        CLASSIFIERS, {"class_weight": "fair"}, fit(), InvalidParameterError, named("class_weight", "fair")
    ),
    # -- the kernel
    "unknown kernel": (ALL, {"kernel": "cosine"}, fit(), InvalidParameterError, named("kernel", "cosine")),
    "no kernel": (ALL, {"kernel": None}, fit(), InvalidParameterError, named("kernel", None)),
    "not square": (ALL, {"kernel": "precomputed"}, fit(), ValueError, "must be a square matrix.*20x3"),
    "sparse matrix": (
        ALL, {"kernel": "precomputed"}, fit(sp.csr_matrix(K)), TypeError, "Sparse precomputed kernels are not supported"
    ),
    "callable's shape": (
        ALL, {"kernel": wrong_shape}, fit(), ValueError,
        r"kernel callable returned shape \(20, 21\) for 20 x 20 points; it must return one value per pair",
    ),
    "callable's NaN": (ALL, {"kernel": not_a_number}, fit(), ValueError, "kernel.* not finite"),
    "callable's NaN off the diagonal": (ALL, {"kernel": rarely_a_number}, fit(), ValueError, "kernel.* not finite"),
    "chi2 negative": (
        ALL, {"kernel": "chi2"}, fit(), ValueError,
        "Negative values in data passed to {name}.*kernel='chi2'.*MinMaxScaler.*laplacian",
    ),
    "chi2 negative sparse": (ALL, {"kernel": "chi2"}, fit(sp.csr_matrix(X)), ValueError, "Negative values.*chi2"),
    "chi2 negative later": (
        ALL, {"kernel": "chi2"}, predict(X, fitted_to=np.abs(X)), ValueError, "Negative values.*chi2"
    ),
    "poly overflows": (
        ALL, {"kernel": "poly", "degree": 30, "gamma": 1e20}, fit(X * 1e10), ValueError,
        "kernel.*not finite.*scale the features.*gamma.*degree",
    ),
    "linear overflows": (
        ALL, {"kernel": "linear"}, fit(X * 1e200), ValueError, "kernel.*not finite.*scale the features"
    ),
    "linear overflows float32": (
        ALL, {"kernel": "linear"}, fit((X * 1e25).astype(np.float32)), ValueError,
        "kernel.*not finite.*scale the features",
    ),
    "distances overflow": (
        ALL, {"gamma": 1.0}, fit(X * 1e200), ValueError, "(too large|not finite).*[Ss]cale the features"
    ),
    "gamma negative": (ALL, {"gamma": -1.0}, fit(), InvalidParameterError, named("gamma", -1.0)),
    "gamma text": (ALL, {"gamma": "wide"}, fit(), InvalidParameterError, named("gamma", "wide")),
    "degree negative": (ALL, {"degree": -1}, fit(), InvalidParameterError, named("degree", -1)),
    "coef0 text": (ALL, {"coef0": "0"}, fit(), InvalidParameterError, named("coef0", "0")),
    # -- the machine
    "C negative": (WITH_C, {"C": -1.0}, fit(), InvalidParameterError, named("C", -1.0)),
    "C zero": (WITH_C, {"C": 0.0}, fit(), InvalidParameterError, named("C", 0.0)),
    "C NaN": (WITH_C, {"C": np.nan}, fit(), InvalidParameterError, named("C", np.nan)),
    "C text": (WITH_C, {"C": "1"}, fit(), InvalidParameterError, named("C", "1")),
    "C too small": ((SVDD,), {"C": 0.01}, fit(), ValueError, r"C=0\.01 is too small.*use C >= 0\.05"),
    "C too small, weighted": (
        (SVDD,), {"C": 0.2}, fit(sample_weight=0.1 * ONES), ValueError, r"C=0\.2 is too small.*use C >= 0\.5"
    ),
    "nu zero": (WITH_NU, {"nu": 0.0}, fit(), InvalidParameterError, named("nu", 0.0)),
    "nu negative": (WITH_NU, {"nu": -0.1}, fit(), InvalidParameterError, named("nu", -0.1)),
    "nu above one": (WITH_NU, {"nu": 1.1}, fit(), InvalidParameterError, named("nu", 1.1)),
    "nu text": (WITH_NU, {"nu": "0.5"}, fit(), InvalidParameterError, named("nu", "0.5")),
    "nu infeasible": (
        (NuSVC,), {"nu": 0.5}, fit(y=np.arange(N) < 2), ValueError,
        r"specified nu is infeasible: nu=0\.5 exceeds .* = 0\.2.*use a smaller nu",
    ),
    "nu infeasible by weight": (
        (NuSVC,), {"nu": 0.5}, fit(sample_weight=np.where(Y, 1.0, 9.0)), ValueError,
        r"nu is infeasible: nu=0\.5 .* = 0\.2,",
    ),
    "epsilon negative": ((SVR,), {"epsilon": -0.1}, fit(), InvalidParameterError, named("epsilon", -0.1)),
    "shape of decisions": (
        CLASSIFIERS, {"decision_function_shape": "all"}, fit(), InvalidParameterError,
        named("decision_function_shape", "all"),
    ),
    "ties of pairs": (
        CLASSIFIERS, {"break_ties": True, "decision_function_shape": "ovo"}, predict(X), ValueError,
        "break_ties must be False when decision_function_shape is 'ovo'",
    ),
    # -- the solver
    "unknown solver": (ALL, {"solver": "simplex"}, fit(), InvalidParameterError, named("solver", "simplex")),
    "unknown option": (
        ALL, {"solver": "smo", "solver_options": {"speed": 1}}, fit(), ValueError,
        "Unknown option 'speed' for solver 'smo'; it takes .*variant",
    ),
    "option's value": (
        ALL, {"solver": "smo", "solver_options": {"variant": "best"}}, fit(), ValueError,
        "variant must be 'second_order'.*got 'best'",
    ),
    "option is a parameter": (
        ALL, {"solver": "smo", "solver_options": {"max_iter": 3}}, fit(), ValueError, "max_iter.*parameter of {name}"
    ),
    "options text": (ALL, {"solver_options": "fast"}, fit(), InvalidParameterError, named("solver_options", "fast")),
    "unknown cache": (
        ALL, {"solver_options": {"cache": "disk"}}, fit(), ValueError, "cache must be 'row' or 'element'; got 'disk'"
    ),
    "cache zero": (ALL, {"cache_size": 0}, fit(), InvalidParameterError, named("cache_size", 0)),
    "cache too small": (
        ALL, {"cache_size": 1e-4}, fit(), ValueError,
        r"cache_size is too small: 0\.0001 MB.*two rows of the 20 x 20.*set cache_size to at least 0\.00032",
    ),
    "cache too small for elements": (
        ALL, {"cache_size": 1e-4, "solver_options": {"cache": "element"}}, fit(), ValueError,
        r"cache_size is too small: 0\.0001 MB.*set cache_size to at least 0\.00064",
    ),
    "tol zero": (ALL, {"tol": 0.0}, fit(), InvalidParameterError, named("tol", 0.0)),
    "gap_tol zero": (ALL, {"gap_tol": 0.0}, fit(), InvalidParameterError, named("gap_tol", 0.0)),
    "gap_tol negative": (ALL, {"gap_tol": -1e-3}, fit(), InvalidParameterError, named("gap_tol", -1e-3)),
    "gap_tol NaN": (ALL, {"gap_tol": np.nan}, fit(), InvalidParameterError, named("gap_tol", np.nan)),
    "time_limit zero": (ALL, {"time_limit": 0.0}, fit(), InvalidParameterError, named("time_limit", 0.0)),
    "time_limit negative": (ALL, {"time_limit": -1.0}, fit(), InvalidParameterError, named("time_limit", -1.0)),
    "max_iter": (ALL, {"max_iter": -2}, fit(), InvalidParameterError, named("max_iter", -2)),
    "callback": (ALL, {"callback": "print"}, fit(), InvalidParameterError, named("callback", "print")),
    "n_jobs": (ALL, {"n_jobs": "all"}, fit(), InvalidParameterError, named("n_jobs", "all")),
    "shrinking": (ALL, {"shrinking": "yes"}, fit(), InvalidParameterError, named("shrinking", "yes")),
    # -- semi-parametric functions
    "parametric's shape": (
        ALL, {"parametric": lambda A: np.ones(7)}, fit(), ValueError,
        r"parametric\[0\] returned shape \(7,\) for 20 samples; it must return one value a sample",
    ),
    "second parametric's shape": (
        ALL, {"parametric": [lambda A: A[:, 0], lambda A: A]}, fit(), ValueError,
        r"parametric\[1\] returned shape \(20, 3\) for 20 samples",
    ),
    "parametric's NaN": (
        ALL, {"parametric": lambda A: np.nan * A[:, 0]}, fit(), ValueError,
        "parametric has values that are NaN or infinite",
    ),
    "parametric number": (ALL, {"parametric": 2}, fit(), InvalidParameterError, named("parametric", 2)),
    # -- prediction
    "not fitted": (
        ALL, {}, lambda model: model.predict(X), NotFittedError, "This {name} instance is not fitted yet. Call 'fit'"
    ),
    "fewer features": (ALL, {}, predict(X[:, :2]), ValueError, "X has 2 features, but {name} is expecting 3 features"),
    "new NaN": (ALL, {}, predict(at(X, np.nan)), ValueError, "Input X contains NaN"),
    "one new sample": (ALL, {}, predict(X[0]), ValueError, "Expected 2D array, got 1D array.*[Rr]eshape"),
    "columns of the matrix": (
        ALL, {"kernel": "precomputed"}, predict(K[:, :5], fitted_to=K), ValueError,
        "5 should be equal to 20, the number of samples at training",
    ),
    "sparse columns": (
        ALL, {"kernel": "precomputed"}, predict(sp.csr_matrix(K), fitted_to=K), TypeError, "dense data is required"
    ),
    "diagonal unknown": (
        (SVDD,), {"kernel": "precomputed"}, predict(X @ X.T, fitted_to=X @ X.T), ValueError,
        r"SVDD needs k\(x, x\).*use a callable kernel, or normalise",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "case"),
    [pytest.param(e, case, id=f"{case}-{e.__name__}") for case, (estimators, *_) in CASES.items() for e in estimators],
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_bad_input(estimator, case):
    _, parameters, act, exception, message = CASES[case]
    model = estimator(**parameters)
    before = dict(model.get_params())
    with pytest.raises(exception) as caught:
        act(model)
    assert re.search(message.replace("{name}", estimator.__name__), str(caught.value), re.DOTALL), str(caught.value)
    after = model.get_params()
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize("estimator", ALL)
def test_parameter_errors_are_values_and_types(estimator):
    """Code that catches ValueError catches a bad parameter, as it would a bad array."""
    with pytest.raises(InvalidParameterError) as caught:
        estimator(kernel="cosine").fit(X, Y)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("estimator", ALL)
def test_positional_parameters_are_refused(estimator):
    with pytest.raises(TypeError, match="positional"):
        estimator(1.0)


@pytest.mark.parametrize("estimator", ALL)
def test_errors_of_the_users_own_functions_come_through(estimator):
    def broken(*_):
        raise LookupError("mine")

    for parameters in ({"kernel": broken}, {"parametric": broken}, {"callback": broken}):
        with pytest.raises(LookupError, match="mine"):
            estimator(**parameters).fit(X, Y)


def test_a_fit_after_a_failed_one_is_as_good_as_new():
    model = SVC(gap_tol=1e-9)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(at(X, np.nan), Y)
    fresh = SVC(gap_tol=1e-9).fit(X, Y)
    np.testing.assert_array_equal(model.fit(X, Y).decision_function(X), fresh.decision_function(X))

"""Probabilities: calibrated as well as scikit-learn's, never at odds with `predict`, whatever the kernel is."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap import SVC, NuSVC, SVCSearchCV
from dualgap.estimators._calibration_coupling import agreeing, couple
from dualgap.estimators._calibration_sigmoid import fit_sigmoid, smoothed_targets
from dualgap.estimators.calibration import probabilities
from dualgap.path.folds import deal


def imbalanced():
    return make_classification(1200, 10, weights=[0.9], flip_y=0.05, class_sep=0.7, random_state=2)


def few_digits():
    X, y = load_digits(return_X_y=True)
    return X[:900], y[:900]


DATA = {
    "iris": lambda: load_iris(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": few_digits,
    "imbalanced": imbalanced,
}


@pytest.fixture(scope="module", params=DATA)
def split(request):
    X, y = DATA[request.param]()
    return train_test_split(StandardScaler().fit_transform(X), y, test_size=0.4, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def theirs(kind, X, y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # deprecated there in 1.9
        return kind(probability=True, random_state=0, **parameters).fit(X, y)


# -- against others -----------------------------------------------------------------------------------------------


def test_log_loss_of_new_samples_is_that_of_others_or_better(split):
    X, new, y, truth = split
    ours = log_loss(truth, SVC(probability=True).fit(X, y).predict_proba(new))
    libsvm = log_loss(truth, theirs(sklearn.svm.SVC, X, y).predict_proba(new))
    peer = CalibratedClassifierCV(sklearn.svm.SVC(), ensemble=False).fit(X, y)
    # Other folds: a few per cent of the loss, and no more where it is small.
    assert ours <= 1.08 * libsvm + 0.002
    assert ours <= 1.08 * log_loss(truth, peer.predict_proba(new)) + 0.005


def test_isotonic_log_loss_is_that_of_others_or_better(split):
    X, new, y, truth = split
    ours = log_loss(truth, SVC(probability=True, calibration="isotonic").fit(X, y).predict_proba(new))
    if len(np.unique(y)) > 3:
        # The peer has no pairs: its probabilities of ten classes are a matter of a few samples it puts at 0.
        assert ours <= 1.08 * log_loss(truth, theirs(sklearn.svm.SVC, X, y).predict_proba(new))
        return
    peer = CalibratedClassifierCV(sklearn.svm.SVC(), method="isotonic", ensemble=False).fit(X, y)
    assert ours <= 1.08 * log_loss(truth, np.clip(peer.predict_proba(new), 1e-15, 1.0))


@pytest.mark.parametrize(("ours", "other"), [(SVC, sklearn.svm.SVC), (NuSVC, sklearn.svm.NuSVC)])
@pytest.mark.parametrize("data", ["iris", "breast cancer"])
def test_sigmoids_are_those_of_scikit_learn_up_to_folds(ours, other, data):
    X, y = DATA[data]()
    X = StandardScaler().fit_transform(X)
    mine = ours(probability=True, **({"nu": 0.2} if ours is NuSVC else {})).fit(X, y)
    peer = theirs(other, X, y, **({"nu": 0.2} if ours is NuSVC else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        A, B = peer.probA_, peer.probB_
    assert mine.probA_.shape == A.shape
    assert mine.probB_.dtype == B.dtype == np.float64
    np.testing.assert_allclose(mine.probA_, A, rtol=0.35)
    np.testing.assert_allclose(mine.probB_, B, atol=0.5)
    np.testing.assert_allclose(mine.predict_proba(X), peer.predict_proba(X), atol=0.12)


# -- the same answer as predict -----------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}, {"multi_class": "ovr"}, {"break_ties": True}])
def test_largest_probability_is_that_of_the_predicted_class(split, calibration, parameters):
    X, new, y, _ = split
    X, y = X[:400], y[:400]
    model = SVC(probability=True, calibration=calibration, **parameters).fit(X, y)
    found = model.predict_proba(new)
    assert found.shape == (len(new), len(model.classes_))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(found > 0.0)
    assert np.all(found < 1.0)
    np.testing.assert_array_equal(model.classes_[np.argmax(found, axis=1)], model.predict(new))
    np.testing.assert_array_equal(model.predict_log_proba(new), np.log(found))


def test_agreement_costs_little(split):
    """Without weights of classes few samples are moved, and the loss grows by two per cent at most."""
    X, new, y, truth = split
    model = SVC(probability=True).fit(X, y)
    free = probabilities(model, model._decision_values(new), agree=False)
    agreed = model.predict_proba(new)
    moved = np.any(free != agreed, axis=1)
    assert moved.mean() < 0.05
    assert log_loss(truth, agreed) <= 1.02 * log_loss(truth, free) + 1e-4


@given(
    st.integers(2, 6).flatmap(
        lambda k: st.tuples(st.lists(st.floats(0.0, 1.0), min_size=k, max_size=k), st.integers(0, k - 1))
    )
)
def test_agreement_is_the_nearest_point(case):
    """A projection p of r onto a convex set: (r - p)'(q - p) <= 0 for all q of the set, here for its corners."""
    row, predicted = np.array(case[0]) + 1e-3, case[1]
    row = row / row.sum()
    k = row.size
    found = agreeing(row[None, :], np.array([predicted]))[0]
    assert np.argmax(found) == predicted
    assert abs(found.sum() - 1.0) < 1e-12
    assert found.min() >= 0.0
    if np.argmax(row) == predicted:
        np.testing.assert_array_equal(found, row)
    for members in range(1 << (k - 1)):  # corners: the predicted class and some others share everything
        corner = np.array([(members >> j) & 1 for j in range(k - 1)], dtype=float)
        corner = np.insert(corner, predicted, 1.0)
        corner /= corner.sum()
        assert (row - found) @ (corner - found) <= 1e-12


# -- parts ---------------------------------------------------------------------------------------------------------


def samples(seed, n=200, slope=2.0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n)
    positive = rng.random(n) < 1.0 / (1.0 + np.exp(-slope * values + 0.3))
    return values, positive, rng.uniform(0.2, 3.0, size=n)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-8, 0.0), (1e9, 0.0), (1.0, 1e6)])
def test_sigmoid_is_the_minimum_that_scipy_finds(seed, scale, shift):
    values, positive, weight = samples(seed)
    found = fit_sigmoid(values * scale + shift, positive, weight)
    target = smoothed_targets(positive, weight)

    def loss(ab):
        z = ab[0] * values + ab[1]
        return weight @ (np.logaddexp(0.0, z) - (1.0 - target) * z) / weight.sum()

    best = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    assert found.gap <= 1e-12
    mine = (found.A * scale, found.B + found.A * shift)
    assert loss(mine) <= best.fun + 1e-9
    # The gap is a bound: nothing is better by more.
    assert loss(mine) - found.gap <= best.fun + 1e-9


def test_sigmoid_of_separated_values_is_finite():
    values = np.concatenate([np.full(500, 40.0), np.full(500, -40.0)])
    found = fit_sigmoid(values, values > 0, np.ones(1000))
    assert np.isfinite([found.A, found.B]).all()
    assert found.gap <= 1e-12
    assert 1.0 / (1.0 + np.exp(found.A * 40.0 + found.B)) == pytest.approx(501 / 502, abs=1e-6)


def test_sigmoid_never_falls():
    values, positive, weight = samples(0)
    found = fit_sigmoid(-values, positive, weight)
    assert found.A == 0.0
    target = smoothed_targets(positive, weight)
    assert 1.0 / (1.0 + np.exp(found.B)) == pytest.approx(weight @ target / weight.sum(), abs=1e-12)
    constant = fit_sigmoid(np.ones(10), np.arange(10) < 3, np.ones(10))
    assert constant.A == 0.0


def test_weight_of_a_sample_is_how_often_it_counts():
    values, positive, _ = samples(1, n=60)
    twice = np.arange(60) % 3 == 0
    weighted = fit_sigmoid(values, positive, np.where(twice, 2.0, 1.0))
    repeated = fit_sigmoid(
        np.concatenate([values, values[twice]]), np.concatenate([positive, positive[twice]]), np.ones(60 + twice.sum())
    )
    assert pytest.approx((repeated.A, repeated.B), rel=1e-6) == (weighted.A, weighted.B)


@pytest.mark.parametrize("k", [3, 4, 10])
def test_coupling_minimises_what_wu_lin_and_weng_say(k):
    rng = np.random.default_rng(k)
    first = rng.uniform(0.01, 0.99, size=(3, k * (k - 1) // 2))
    found = couple(first, k)
    i, j = np.triu_indices(k, 1)
    for row, p in zip(first, found, strict=True):

        def objective(q, row=row):
            return np.sum(((1.0 - row) * q[i] - row * q[j]) ** 2)

        best = minimize(
            objective,
            np.full(k, 1.0 / k),
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1.0},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert objective(p) <= best.fun + 1e-9
        np.testing.assert_allclose(p, best.x, atol=1e-4)


def test_coupling_returns_probabilities_that_pairs_were_made_of():
    p = np.random.default_rng(0).dirichlet(np.ones(7), size=5000)
    i, j = np.triu_indices(7, 1)
    first = p[:, i] / (p[:, i] + p[:, j])
    np.testing.assert_allclose(couple(first, 7), p, atol=1e-4)  # pairs of rare classes are cut at 1e-7
    assert np.abs(couple(np.round(first), 7).sum(axis=1) - 1.0).max() < 1e-12  # nothing but 0 and 1


def test_folds_are_even():
    codes = np.repeat([0, 1, 2], [23, 4, 50])
    used = np.arange(77) != 5
    fold = deal(codes, used, 5, np.random.default_rng(0).permutation(77))
    assert fold[5] == -1
    counts = np.bincount(fold[used], minlength=5)
    assert np.ptp(counts) <= 1
    for label in range(3):
        assert np.ptp(np.bincount(fold[used & (codes == label)], minlength=5)) <= 1


# -- data of every kind -------------------------------------------------------------------------------------------


def test_layouts_of_one_kernel_give_the_same_probabilities(three):
    X, y = three
    settings = {"probability": True, "gap_tol": 1e-9, "gamma": 0.3}
    expected = SVC(**settings).fit(X, y).predict_proba(X)
    sparse = SVC(**settings).fit(sp.csr_matrix(X), y).predict_proba(sp.csr_matrix(X))
    np.testing.assert_allclose(sparse, expected, atol=1e-4)
    K = rbf_kernel(X, gamma=0.3)
    stored = SVC(kernel="precomputed", probability=True, gap_tol=1e-9).fit(K, y).predict_proba(K)
    np.testing.assert_allclose(stored, expected, atol=1e-4)

    def own(one, two):
        return rbf_kernel(one, two, gamma=0.3)

    called = SVC(kernel=own, probability=True, gap_tol=1e-9).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(called, expected, atol=1e-4)
    low_rank = SVC(**settings, approximation="rpcholesky", rank=len(y)).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(low_rank, expected, atol=1e-3)


def test_left_out_values_are_those_of_models_without_the_fold(three):
    """The sigmoid of a fit is that of decision values by estimators fitted without each fold."""
    X, y = three
    X, y = X[50:], y[50:]  # the two classes that overlap
    settings = {"gamma": 0.3, "gap_tol": 1e-9}
    model = SVC(probability=True, calibration_cv=4, random_state=3, **settings).fit(X, y)
    order = np.random.RandomState(3).permutation(len(y))
    fold = deal(np.unique(y, return_inverse=True)[1], np.ones(len(y), dtype=bool), 4, order)
    values = np.empty(len(y))
    for k in range(4):
        values[fold == k] = SVC(**settings).fit(X[fold != k], y[fold != k]).decision_function(X[fold == k])
    expected = fit_sigmoid(-values, y == model.classes_[0], np.ones(len(y)))
    assert (model.probA_[0], model.probB_[0]) == pytest.approx((expected.A, expected.B), rel=1e-3, abs=1e-4)


def test_samples_of_weight_zero_are_not_there(three):
    X, y = three
    weight = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.0)
    kept = SVC(probability=True, gamma=0.3).fit(X, y, sample_weight=weight)
    spoilt = SVC(probability=True, gamma=0.3).fit(X, np.where(weight > 0, y, (y + 1) % 3), sample_weight=weight)
    assert kept.predict_proba(X).shape == (150, 3)
    # Labels of samples that are left out decide nothing but the order in which others are dealt to folds.
    np.testing.assert_allclose(kept.predict_proba(X), spoilt.predict_proba(X), atol=0.1)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_a_class_of_weight_zero_is_unlikely(three, calibration):
    X, y = three
    model = SVC(probability=True, calibration=calibration).fit(X, y, sample_weight=np.where(y == 1, 0.0, 1.0))
    found = model.predict_proba(X)
    assert found[:, 1].max() < 0.1
    np.testing.assert_array_equal(model.classes_[np.argmax(found, axis=1)], model.predict(X))


def test_calibration_of_nobody_gives_even_chances():
    nothing = np.empty(0)
    assert fit_sigmoid(nothing, np.empty(0, dtype=bool), nothing).B == 0.0


def test_semi_parametric_models_have_probabilities(three):
    X, y = three
    model = SVC(probability=True, parametric=[lambda points: points[:, 0]]).fit(X, y)
    np.testing.assert_array_equal(model.classes_[np.argmax(model.predict_proba(X), axis=1)], model.predict(X))


@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_few_samples_are_enough(kind):
    X = np.array([[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1], [9.0, 9.0]])
    y = ["no", "no", "no", "yes", "yes", "yes", "far"]
    model = kind(probability=True, **({"nu": 0.2} if kind is NuSVC else {})).fit(X, y)
    found = model.predict_proba(X)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(model.classes_[np.argmax(found, axis=1)], model.predict(X))


def test_nu_that_just_fits_all_samples_is_fitted_to_folds():
    X, y = make_classification(103, 5, weights=[0.7], random_state=0)
    largest = 2.0 * min(np.mean(y), 1.0 - np.mean(y))
    assert NuSVC(nu=largest, probability=True).fit(X, y).predict_proba(X).shape == (103, 2)


def test_fits_are_repeatable(three):
    X, y = three
    first, second = (SVC(probability=True).fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = SVC(probability=True, random_state=7).fit(X, y).predict_proba(X)
    assert not np.array_equal(first, other)


# -- the parameter ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [False, "deprecated"])
def test_without_probability_there_is_no_method(three, value):
    model = SVC(probability=value).fit(*three)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError) as caught:
        _ = model.predict_proba
    assert str(caught.value.__cause__) == "predict_proba is not available when probability=False"
    assert model.probA_.size == model.probB_.size == 0


def test_set_after_the_fit_it_says_so(three):
    X, y = three
    model = SVC().fit(X, y).set_params(probability=True)
    with pytest.raises(NotFittedError, match="predict_proba is not available when fitted with probability=False"):
        model.predict_proba(X)


@pytest.mark.parametrize(
    "wrong", [{"probability": "yes"}, {"calibration": "platt"}, {"calibration_cv": 1}, {"calibration_cv": 2.5}]
)
def test_wrong_values_are_refused(three, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SVC(**{"probability": True, **wrong}).fit(*three)


def test_parameters_of_scikit_learn_are_taken(three):
    model = SVC(**sklearn.svm.SVC().get_params()).fit(*three)
    assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_copies_have_the_same_probabilities(three, calibration, tmp_path):
    X, y = three
    model = SVC(probability=True, calibration=calibration).fit(X, y)
    dualgap.save(model, tmp_path / "model.dualgap")
    for again in (pickle.loads(pickle.dumps(model)), dualgap.load(tmp_path / "model.dualgap")):
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X))


def test_searches_score_by_probabilities(three):
    X, y = three
    grid = {"C": [0.1, 10.0]}
    ours = SVCSearchCV(SVC(probability=True), Cs=grid["C"], scoring="neg_log_loss", cv=3).fit(X, y)
    plain = GridSearchCV(SVC(probability=True), grid, scoring="neg_log_loss", cv=3).fit(X, y)
    np.testing.assert_array_equal(ours.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert ours.predict_proba(X).shape == (150, 3)

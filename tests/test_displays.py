"""Displays show what the estimators say, for every kind of estimator, and refuse what they cannot draw."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap import ConvergenceDisplay, MarginDisplay, PathDisplay, SearchDisplay
from dualgap.displays import drawing

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.4, 1, -1)
TARGET = np.sin(2 * X[:, 0])
ESTIMATORS = {
    "SVC": (dualgap.SVC(C=3), Y),
    "SVC of three classes": (dualgap.SVC(), np.digitize(X[:, 0], [-0.5, 0.5])),
    "SVC against the rest": (dualgap.SVC(multi_class="ovr"), np.digitize(X[:, 0], [-0.5, 0.5])),
    "NuSVC": (dualgap.NuSVC(nu=0.3), Y),
    "SVR": (dualgap.SVR(), TARGET),
    "NuSVR": (dualgap.NuSVR(), TARGET),
    "OneClassSVM": (dualgap.OneClassSVM(nu=0.2), None),
    "SVDD": (dualgap.SVDD(C=0.05), None),
    "LinearSVC": (dualgap.LinearSVC(), Y),
    "LinearSVC, L1": (dualgap.LinearSVC(penalty="l1"), Y),
    "Crammer-Singer": (dualgap.LinearSVC(multi_class="crammer_singer"), np.digitize(X[:, 0], [-0.5, 0.5])),
    "LinearSVR": (dualgap.LinearSVR(epsilon=0.1), TARGET),
    "LinearOneClassSVM": (dualgap.LinearOneClassSVM(nu=0.2), None),
    "LinearSVDD": (dualgap.LinearSVDD(C=0.05), None),
    "low rank": (dualgap.SVC(approximation="rpcholesky", rank=20), Y),
    "pipeline": (make_pipeline(StandardScaler(), dualgap.SVC()), Y),
    "search": (dualgap.SVCSearchCV(dualgap.SVC(), Cs=[0.1, 1.0], cv=2), Y),
}


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request):
    estimator, y = ESTIMATORS[request.param]
    points = X + 3.0 if request.param == "LinearOneClassSVM" else X
    return estimator.fit(points, y) if y is not None else estimator.fit(points), points, y


@pytest.fixture(scope="module")
def model():
    return dualgap.SVC(C=3, gap_tol=1e-8, solver="smo").fit(X, Y)


@pytest.fixture(scope="module")
def path():
    return dualgap.svm_path(X, Y, [10.0, 0.1, 1.0], gap_tol=1e-6, cv=3)


def test_every_estimator_converges_on_a_picture(fitted):
    estimator, _, _ = fitted
    for x in ("time", "iteration"):
        display = ConvergenceDisplay.from_estimator(estimator, x=x, task="all")
        assert len(display.lines_) == 2 * len(display.histories)
        assert display.line_ is display.lines_[0]
        assert display.ax_.figure is display.figure_
        assert display.ax_.get_yscale() == "log"


def test_every_estimator_shows_where_samples_lie(fitted):
    estimator, points, y = fitted
    display = MarginDisplay.from_estimator(estimator, points, y)
    assert display.margins_.shape == (80,)
    assert sum(bar.get_height() for bars in display.bars_ for bar in bars) == 80
    assert display.line_ is not None
    if display.margins.title == "Residuals":
        with pytest.raises(ValueError, match="of two features"):
            MarginDisplay.from_estimator(estimator, points, y, kind="boundary")
    else:
        display = MarginDisplay.from_estimator(estimator, points, y, kind="boundary")
        assert display.margins_ is None
        assert (display.line_ is None) == (len(display.plane.names) > 2)


# ---- convergence


@pytest.mark.parametrize(("x", "column"), [("time", "seconds"), ("iteration", "iteration")])
def test_convergence_is_the_history(model, x, column):
    display = ConvergenceDisplay.from_estimator(model, x=x, y=("relative_gap", "violation", "n_support"))
    for line, quantity in zip(display.lines_, ("relative_gap", "violation", "n_support"), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), model.history_.column(column))
        np.testing.assert_array_equal(line.get_ydata(), model.history_.column(quantity))
    # A count is not drawn on the gap's logarithmic axis.
    assert display.ax_.get_yscale() == "linear"


def test_convergence_draws_into_given_axes_with_given_style(model):
    import matplotlib.pyplot as plt

    axes = plt.subplots()[1]
    display = ConvergenceDisplay.from_estimator(model, y="relative_gap", name="mine", ax=axes, color="red")
    assert display.ax_ is axes
    assert display.line_.get_color() == "red"
    assert display.line_.get_label() == "mine"
    assert display.plot(ax=axes) is display


def test_convergence_of_several(model):
    other = dualgap.SVC(C=3, gap_tol=1e-8, solver="block").fit(X, Y)
    display = ConvergenceDisplay.from_estimators([model, other, model])
    assert [line.get_label() for line in display.lines_] == ["smo 1", "block", "smo 2"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["smo 1", "block", "smo 2"]
    display = ConvergenceDisplay.from_estimators({"a": model, "b": other}, x="iteration")
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), other.history_.column("relative_gap"))
    assert len(ConvergenceDisplay.from_estimators([model, other], names=["p", "q"], y="violation").lines_) == 2


def test_convergence_takes_the_worst_task_or_the_one_named():
    flowers, species = load_iris(return_X_y=True)
    three = dualgap.SVC().fit(flowers, np.array(["a", "b", "c"])[species])
    worst = int(np.argmax([one.relative_gap for one in three.certificates_]))
    line = ConvergenceDisplay.from_estimator(three, y="violation").line_
    np.testing.assert_array_equal(line.get_ydata(), three.history_[worst].column("violation"))
    line = ConvergenceDisplay.from_estimator(three, y="violation", task="b against c").line_
    np.testing.assert_array_equal(line.get_ydata(), three.history_[2].column("violation"))
    with pytest.raises(ValueError, match="one of a against b, a against c, b against c"):
        ConvergenceDisplay.from_estimator(three, task="a against d")


def test_convergence_says_what_is_wrong(model):
    with pytest.raises(ValueError, match='"time" or "iteration"'):
        ConvergenceDisplay.from_estimator(model, x="epoch")
    with pytest.raises(ValueError, match="'loss'"):
        ConvergenceDisplay.from_estimator(model, y="loss")
    with pytest.raises(ValueError, match="y is empty"):
        ConvergenceDisplay.from_estimator(model, y=())
    with pytest.raises(ValueError, match="no runs"):
        ConvergenceDisplay.from_estimators([])
    with pytest.raises(ValueError, match="2 estimators and 1 names"):
        ConvergenceDisplay.from_estimators([model, model], names=["a"])
    with pytest.raises(ValueError, match="names must differ"):
        ConvergenceDisplay.from_estimators([model, model], names=["a", "a"])
    with pytest.raises(ValueError, match="leave names out"):
        ConvergenceDisplay.from_estimators({"a": model}, names=["b"])
    with pytest.raises(NotFittedError, match="call fit first"):
        ConvergenceDisplay.from_estimator(dualgap.SVC())
    with pytest.raises(TypeError, match="LogisticRegression has no certificates"):
        ConvergenceDisplay.from_estimator(LogisticRegression().fit(X, Y))
    with pytest.raises(TypeError, match="the class SVC"):
        ConvergenceDisplay.from_estimator(dualgap.SVC)


# ---- paths


def test_path_is_drawn_in_ascending_order(path):
    display = PathDisplay.from_path(path)
    assert list(display.lines_) == ["objective", "gap", "support", "validation"]
    assert len(display.axes_) == 4
    assert display.line_ is display.lines_["objective"]
    order = [1, 2, 0]
    for name, values in (
        ("objective", path.objectives),
        ("support", path.n_support),
        ("validation", path.validation_errors),
    ):
        np.testing.assert_array_equal(display.lines_[name].get_xdata(), [0.1, 1.0, 10.0])
        np.testing.assert_array_equal(display.lines_[name].get_ydata(), values[order])
    gaps = display.lines_["gap"].get_ydata()
    np.testing.assert_array_equal(gaps[gaps > 0], path.relative_gaps[order][gaps > 0])
    assert [axes.get_xscale() for axes in display.axes_] == ["log"] * 4


def test_path_takes_quantities_and_axes(path):
    import matplotlib.pyplot as plt

    axes = plt.subplots()[1]
    display = PathDisplay.from_path(path, quantities="seconds", ax=axes, color="red")
    assert display.ax_ is axes
    np.testing.assert_array_equal(display.line_.get_ydata(), path.seconds[[1, 2, 0]])
    assert display.line_.get_color() == "red"
    plain = dualgap.svm_path(X, TARGET, [0.1, 0.3], parameter="epsilon", row="eps_svr")
    assert PathDisplay.from_path(plain).quantities == ["objective", "gap", "support"]


def test_path_marks_what_was_proved_and_what_is_best(path):
    separable = dualgap.svm_path([[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1], [0.1, 1, 10, 100], kernel="linear")
    display = PathDisplay.from_path(separable, quantities=["support"])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["no solver needed"]
    display = PathDisplay.from_path(path, quantities=["validation"])
    said = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert said == [f"best: C = {path.values[path.best]:.3g}"]


def test_path_says_what_is_wrong(path, model):
    import matplotlib.pyplot as plt

    with pytest.raises(TypeError, match="what svm_path returns; got SVC"):
        PathDisplay.from_path(model)
    with pytest.raises(ValueError, match="quantities must be of"):
        PathDisplay.from_path(path, quantities=["loss"])
    with pytest.raises(ValueError, match="quantities is empty"):
        PathDisplay.from_path(path, quantities=[])
    with pytest.raises(ValueError, match="4 panels and got 1 axes"):
        PathDisplay.from_path(path, ax=plt.subplots()[1])
    with pytest.raises(ValueError, match="no validation errors"):
        PathDisplay.from_path(dualgap.svm_path(X, Y, [1.0]), quantities=["validation"])


# ---- margins


def test_margins_are_those_of_the_decision_function(model):
    display = MarginDisplay.from_estimator(model, X, Y)
    np.testing.assert_array_equal(display.margins_, Y * model.decision_function(X))
    assert display.line_.get_xdata()[0] == 1.0
    heights = [sum(bar.get_height() for bar in bars) for bars in display.bars_]
    margins = Y * model.decision_function(X)
    assert heights == [np.sum(margins < 0), np.sum((margins >= 0) & (margins < 1)), np.sum(margins >= 1)]


def test_margins_of_several_classes_are_the_least_over_pairs():
    flowers, species = load_iris(return_X_y=True)
    three = dualgap.SVC(decision_function_shape="ovo").fit(flowers, species)
    values = three.decision_function(flowers)
    signed = {0: (values[:, 0], values[:, 1]), 1: (-values[:, 0], values[:, 2]), 2: (-values[:, 1], -values[:, 2])}
    expected = [min(signed[k][0][i], signed[k][1][i]) for i, k in enumerate(species)]
    np.testing.assert_allclose(MarginDisplay.from_estimator(three, flowers, species).margins_, expected)


def test_residuals_have_the_tube_of_the_estimator():
    for estimator in (dualgap.SVR(epsilon=0.2).fit(X, TARGET), dualgap.NuSVR().fit(X, TARGET)):
        display = MarginDisplay.from_estimator(estimator, X, TARGET)
        np.testing.assert_allclose(display.margins_, TARGET - estimator.predict(X))
        assert display.line_.get_xdata()[0] == getattr(estimator, "epsilon_", estimator.get_params().get("epsilon"))


def test_boundary_marks_samples_and_support_vectors(model):
    display = MarginDisplay.from_estimator(model, X, Y, kind="boundary")
    scatters = {one.get_label(): one for one in display.ax_.collections if one.get_label()[0] != "_"}
    assert set(scatters) >= {"-1", "1", "support vector"}
    np.testing.assert_allclose(scatters["support vector"].get_offsets(), model.support_vectors_)
    assert len(scatters["1"].get_offsets()) == np.sum(Y == 1)
    # The boundary is where the decision function is zero, as far as the grid tells.
    vertices = np.vstack([one.vertices for one in display.line_.get_paths()])
    assert np.abs(model.decision_function(vertices)).max() < 0.05


def test_margins_say_what_is_wrong(model):
    with pytest.raises(ValueError, match="kind must be"):
        MarginDisplay.from_estimator(model, X, Y, kind="pie")
    with pytest.raises(ValueError, match="need y"):
        MarginDisplay.from_estimator(dualgap.SVR().fit(X, TARGET), X)
    flowers, species = load_iris(return_X_y=True)
    four = dualgap.SVC().fit(flowers, species)
    with pytest.raises(ValueError, match="this SVC has 4"):
        MarginDisplay.from_estimator(four, flowers, species, kind="boundary")
    with pytest.raises(ValueError, match="either margins or a plane"):
        MarginDisplay()


# ---- searches


def test_search_shows_the_mean_scores():
    Cs, gammas = [10.0, 0.1, 1.0], [1.0, "scale"]
    search = dualgap.SVCSearchCV(dualgap.SVC(), Cs=Cs, gammas=gammas, cv=3).fit(X, Y)
    display = SearchDisplay.from_search(search)
    assert display.rows == ["0.1", "1", "10"]
    assert display.columns == ["scale", "1"]
    for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        i, j = [0.1, 1.0, 10.0].index(params["C"]), ["scale", 1.0].index(params["gamma"])
        assert display.im_.get_array()[i, j] == score
    assert display.scores[display.best] == search.best_score_
    assert len(display.text_) == 6
    assert display.ax_.get_title(loc="left") == "mean validation accuracy"


def test_search_of_one_parameter_and_of_three():
    alone = dualgap.SVCSearchCV(dualgap.SVC(kernel="linear"), Cs=[0.1, 1.0], cv=2).fit(X, Y)
    assert SearchDisplay.from_search(alone).scores.shape == (2, 1)
    grids = {"Cs": [0.1, 1.0], "gammas": [0.1, 1.0], "epsilons": [0.05, 0.2]}
    three = dualgap.SVRSearchCV(dualgap.SVR(), cv=2, **grids).fit(X, TARGET)
    display = SearchDisplay.from_search(three)
    assert display.scores.shape == (2, 2)
    assert display.fixed == f"epsilon = {three.best_params_['epsilon']:g}"
    assert display.score == "R2"
    assert SearchDisplay.from_search(three, columns="epsilon").names == ("C", "epsilon")


def test_search_takes_grid_search_and_metrics():
    grid = {"C": [0.1, 1.0], "gamma": [0.1, 1.0]}
    search = GridSearchCV(dualgap.SVC(), grid, cv=2, scoring=["accuracy", "f1"], refit="f1").fit(X, Y)
    assert SearchDisplay.from_search(search, metric="f1").score == "f1"
    with pytest.raises(ValueError, match="one of accuracy, f1"):
        SearchDisplay.from_search(search)
    with pytest.raises(ValueError, match="rows must be"):
        SearchDisplay.from_search(search, rows="nu", metric="f1")
    with pytest.raises(TypeError, match="SVC has no cv_results_"):
        SearchDisplay.from_search(dualgap.SVC())
    with pytest.raises(ValueError, match=r"shape \(1, 1\)"):
        SearchDisplay([[1.0, 2.0]], ["a"], ["b"], names=("C", "gamma"))


# ---- without matplotlib


def test_without_matplotlib_the_extra_is_named(model, path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(drawing.importlib.util, "find_spec", lambda name: None)
    for draw in (
        lambda: ConvergenceDisplay.from_estimator(model),
        lambda: ConvergenceDisplay.from_estimators([model]),
        lambda: PathDisplay.from_path(path),
        lambda: MarginDisplay.from_estimator(model, X, Y),
        lambda: SearchDisplay.from_search(model),
        lambda: PathDisplay(path).plot(),
    ):
        with pytest.raises(ImportError, match=r"pip install 'dualgap\[report\]'"):
            draw()

"""From fitted estimators to pages: every kind of estimator, what is drawn, and what is refused."""

from __future__ import annotations

import html
import importlib
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap.report.boundary import MOST_POINTS, level_line, plane_of
from dualgap.report.estimator import summarise
from dualgap.report.histogram import bins, counts, histogram
from dualgap.report.margins import margins_of
from dualgap.report.plane_map import plane_map
from dualgap.report.scales import Axis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.4, 1, -1)
THREE = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
TARGET = np.sin(2 * X[:, 0])
ESTIMATORS = {
    "SVC": (dualgap.SVC(C=3), Y),
    "SVC of three classes": (dualgap.SVC(), THREE),
    "SVC against the rest": (dualgap.SVC(multi_class="ovr"), THREE),
    "NuSVC": (dualgap.NuSVC(nu=0.3), Y),
    "SVR": (dualgap.SVR(), TARGET),
    "NuSVR": (dualgap.NuSVR(), TARGET),
    "OneClassSVM": (dualgap.OneClassSVM(nu=0.2), None),
    "SVDD": (dualgap.SVDD(C=0.05), None),
    "LinearSVC": (dualgap.LinearSVC(), Y),
    "LinearSVC, L1": (dualgap.LinearSVC(penalty="l1"), THREE),
    "Crammer-Singer": (dualgap.LinearSVC(multi_class="crammer_singer"), THREE),
    "LinearSVR": (dualgap.LinearSVR(), TARGET),
    "LinearOneClassSVM": (dualgap.LinearOneClassSVM(nu=0.2), None),
    "LinearSVDD": (dualgap.LinearSVDD(C=0.05), None),
    "low rank": (dualgap.SVC(approximation="rpcholesky", rank=20), Y),
    "indefinite": (dualgap.SVC(kernel="sigmoid", gamma=1.0, coef0=1.0), Y),
    "sparse": (dualgap.SVC(), Y),
    "pipeline": (make_pipeline(StandardScaler(), dualgap.SVC()), Y),
    "search": (dualgap.SVCSearchCV(dualgap.SVC(), Cs=[0.1, 1.0], cv=2), Y),
    "search of a pipeline's end": (make_pipeline(StandardScaler(), dualgap.SVRSearchCV(Cs=[1.0], cv=2)), TARGET),
}


def rows(page):
    """The rows of all tables, as text."""
    found = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]
    return [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in cells]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_page(name):
    estimator, y = ESTIMATORS[name]
    points = X + 3.0 if name == "LinearOneClassSVM" else X
    points = sp.csr_matrix(points) if name == "sparse" else points
    estimator.fit(points) if y is None else estimator.fit(points, y)
    page = dualgap.report(estimator, X=points, y=y).html
    for heading in ("Progress", "Samples", "Last recorded state", "Facts", "Settings"):
        assert f"<h2>{heading}</h2>" in page
    regression = y is TARGET
    assert ("<h3>Boundary</h3>" in page) == (not regression)
    assert ("<h3>Confusion matrix</h3>" in page) == (y is not None and not regression)
    assert "<h3>Residuals</h3>" in page or "<h3>Margins</h3>" in page or "<h3>Decision values</h3>" in page
    assert not re.search(r"https?://|url\(|@import|<script", page)
    assert "nan" not in " ".join(re.findall(r'(?:points|d|cx|cy|x1|y1)="([^"]*)"', page))
    # Every drawing says what it shows.
    assert page.count('role="img"') == len(re.findall(r'aria-label="[^"]+">\n<title>[^<]+</title>', page)) >= 4
    # And without samples the page still stands.
    assert "<h2>Progress</h2>" in dualgap.report(estimator).html


def test_numbers_are_those_of_the_estimator():
    model = dualgap.SVC(C=3, gap_tol=1e-6).fit(X[:50], THREE[:50])
    page = dualgap.report(model, X=X[50:], y=THREE[50:]).html
    predicted = model.predict(X[50:])
    found = rows(page)
    labels = ["high", "low", "middle"]
    assert ["true \\ predicted", *labels] in found
    for label, counted in zip(labels, confusion_matrix(THREE[50:], predicted, labels=labels), strict=True):
        assert [label, *(str(count) for count in counted)] in found
    assert ["accuracy", f"{np.mean(predicted == THREE[50:]):.5g}"] in found
    assert "On the 30 samples given to the report." in page
    assert ["C", "3 (default: 1.0)"] in found
    assert ["gap_tol", "1e-06 (default: None)"] in found
    tasks = ["high against low", "high against middle", "low against middle"]
    gaps = dict(zip(tasks, model.certificates_, strict=True))
    certified = {row[0]: row[1] for row in found if len(row) == 7 and row[0] in gaps and "e-" in row[1]}
    assert certified == {name: f"{one.relative_gap:.2e}" for name, one in gaps.items()}
    assert page.count("<details>") == 2


def test_search_and_pipeline_say_what_is_inside():
    search = dualgap.SVCSearchCV(dualgap.SVC(), Cs=[0.1, 1.0], gammas=[0.5], cv=2).fit(X, Y)
    page = dualgap.report(search).html
    assert "<h1>SVC of SVCSearchCV</h1>" in page
    assert f"C = {search.best_params_['C']}, gamma = 0.5; score" in page
    inside = make_pipeline(StandardScaler(), dualgap.SVC()).fit(X, Y)
    found = summarise(inside, X, Y)
    np.testing.assert_allclose(found.margins.values, Y * inside.decision_function(X))
    assert found.scores == {"accuracy": inside.score(X, Y)}


def test_path_has_a_page(tmp_path):
    path = dualgap.svm_path(X, Y, [10.0, 0.1, 1.0], gap_tol=1e-6, cv=3)
    page = dualgap.report(path, tmp_path / "path.html", title="My path").html
    assert (tmp_path / "path.html").read_text(encoding="utf-8") == page
    assert "<h1>My path</h1>" in page
    assert [row[0] for row in rows(page) if len(row) == 9] == ["C", "0.1", "1", "10"]
    assert "That is the worst of 3 values" in page
    for heading in ("Objective", "Certified relative gap", "Support vectors", "Validation error"):
        assert f"<h3>{heading}</h3>" in page
    assert page.count("<polyline") >= 3
    with pytest.raises(ValueError, match="no use for X"):
        dualgap.report(path, X=X)
    assert "Validation error" not in dualgap.report(dualgap.svm_path(X, Y, [1.0])).html


def test_the_package_and_the_function_are_one_door():
    model = dualgap.SVC().fit(X, Y)
    assert dualgap.report(model).html == importlib.import_module("dualgap.report").report(model).html
    assert dualgap.report.ReportData is importlib.import_module("dualgap.report.data").ReportData
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dualgap.report.nonsense
    script = "import dualgap.report.wording, sys; assert 'numpy' not in sys.modules; assert callable(dualgap.report)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_notebooks_show_the_page_in_a_frame():
    report = dualgap.report(dualgap.SVC().fit(X, Y))
    shown = report._repr_html_()
    found = re.search(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(found[1]) == report.html
    assert "bytes of HTML" in repr(report)


def test_wrong_arguments_are_named():
    with pytest.raises(NotFittedError, match="call fit first"):
        dualgap.report(dualgap.SVC())
    with pytest.raises(TypeError, match="LogisticRegression has no certificates"):
        dualgap.report(LogisticRegression().fit(X, Y))
    with pytest.raises(ValueError, match="y is given without X"):
        dualgap.report(dualgap.SVC().fit(X, Y), y=Y)


def test_a_loaded_model_has_the_same_page(tmp_path):
    model = dualgap.SVC(C=3).fit(X, THREE)
    dualgap.save(model, tmp_path / "m.dualgap")
    assert dualgap.report(dualgap.load(tmp_path / "m.dualgap"), X=X, y=THREE).html == (
        dualgap.report(model, X=X, y=THREE).html
    )


# ---- margins


def test_margins_without_labels_and_with_unknown_ones():
    model = dualgap.SVC().fit(X, Y)
    plain = margins_of(model, X)
    np.testing.assert_array_equal(plain.values, model.decision_function(X))
    assert plain.quantity == "f(x)"
    some = np.where(np.arange(80) < 10, 7, Y)
    assert margins_of(model, X, some).values.shape == (70,)
    assert margins_of(model, X, np.full(80, 7)) is None
    assert margins_of(dualgap.SVC().fit(X, THREE), X) is None


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_margins_of_linear_machines_of_several_classes(multi_class):
    flowers, species = load_iris(return_X_y=True)
    model = dualgap.LinearSVC(multi_class=multi_class).fit(flowers, species)
    values = model.decision_function(flowers)
    expected = []
    for i, own in enumerate(species):
        others = np.delete(values[i], own)
        rest = values[i, own] - others.max() if multi_class == "crammer_singer" else min(values[i, own], -others.max())
        expected.append(rest)
    np.testing.assert_allclose(margins_of(model, flowers, species).values, expected)


def test_groups_hold_every_value():
    for estimator, y in ((dualgap.SVR(epsilon=0.05), TARGET), (dualgap.SVC(), Y), (dualgap.OneClassSVM(), None)):
        margins = margins_of(estimator.fit(X, y), X, y)
        assert sum(len(values) for _, values, _ in margins.grouped()) == 80


# ---- histograms


def test_bars_meet_the_marks_and_hold_every_value():
    values = np.concatenate([RNG.normal(size=1000), [1e6]])
    edges = bins(values, [0.0, 1.0])
    assert np.isclose(edges, 0.0).any()
    assert edges[-1] < 10
    np.testing.assert_allclose(np.diff(edges), edges[1] - edges[0])
    assert counts(values, edges).sum() == 1001
    assert counts(values, edges)[-1] >= 1


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [1e-300, 2e-300], [-1e12, 1e12]])
@pytest.mark.parametrize("marks", [[], [0.0, 1.0]])
def test_bars_of_odd_values(values, marks):
    edges = bins(np.array(values), marks)
    assert len(edges) >= 2
    assert np.all(np.diff(edges) > 0)
    assert counts(np.array(values), edges).sum() == len(values)


def test_histogram_of_nothing_says_so():
    assert "There are no values to draw." in histogram([("a", np.empty(0), 0)], title="t", x=Axis("x"))
    assert "<svg" not in histogram([], title="t", x=Axis("x"))


# ---- the plane


def test_level_line_of_a_circle():
    grid = np.linspace(-2, 2, 81)
    values = np.add.outer(grid**2, grid**2)
    segments = np.array(level_line(values, grid, grid, 1.0))
    np.testing.assert_allclose(np.linalg.norm(segments, axis=2), 1.0, atol=2e-3)
    assert np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1).sum() == pytest.approx(2 * np.pi, rel=1e-3)
    assert level_line(values, grid, grid, 100.0) == []


def test_plane_shows_predictions_samples_and_support_vectors():
    model = dualgap.SVC(C=3).fit(X, THREE)
    plane = plane_of(model, X, THREE)
    grid = np.column_stack([part.ravel() for part in np.meshgrid(plane.x, plane.y)])
    np.testing.assert_array_equal(model.classes_[plane.regions.ravel()], model.predict(grid))
    np.testing.assert_array_equal(np.array(plane.names)[plane.codes], THREE)
    np.testing.assert_array_equal(plane.support, model.support_vectors_)
    drawn = plane_map(plane, "Boundary")
    assert drawn.count('class="ring"') == len(model.support_) + 1  # and one in the legend
    assert drawn.count('class="area') == 3


def test_plane_of_many_samples_is_thinned():
    model = dualgap.SVC().fit(X, Y)
    plane = plane_of(model, RNG.normal(size=(5000, 2)), None)
    assert len(plane.points) == MOST_POINTS
    assert plane.hidden == (5000 - MOST_POINTS, 0)


def test_plane_exists_for_two_features_only():
    flowers, species = load_iris(return_X_y=True)
    assert plane_of(dualgap.SVC().fit(flowers, species), flowers) is None
    assert plane_of(dualgap.SVR().fit(X, TARGET), X) is None
    assert plane_of(dualgap.LinearSVC().fit(X, Y)) is None  # neither samples nor support vectors
    assert plane_of(dualgap.SVC(kernel="precomputed").fit(X[:2] @ X[:2].T, [0, 1]), X[:2] @ X[:2].T) is None


def test_names_of_columns_are_kept_and_cause_no_warning(recwarn):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["width", "height"])
    plane = plane_of(dualgap.SVC().fit(frame, Y), frame, Y)
    assert plane.axes == ("width", "height")
    assert [str(one.message) for one in recwarn if "feature names" in str(one.message)] == []

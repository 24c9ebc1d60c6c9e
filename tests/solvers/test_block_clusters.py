"""Starts from clusters: parts of all variables, solved alone, joined to a feasible point the run goes on from."""

import numpy as np
import pytest
from sklearn import svm

from dualgap import SVC, Status
from dualgap.certificate import certify
from dualgap.kernels import fused
from dualgap.solvers import _block_clusters, block

pytestmark = pytest.mark.skipif(not fused.AVAILABLE, reason="rows on demand need the registers of tiles")

ROWS = 2400


@pytest.fixture(scope="module")
def noisy():
    """Points whose labels are wrong so often that most of them become support vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 5))
    y = np.where((X[:, 0] + X[:, 1] > 0.0) ^ (rng.uniform(size=ROWS) < 0.3), 1, -1)
    return X, y


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few hundred, so that data of a test have several."""
    for name, value in (("_PART", 512), ("_PROBE", 128), ("_MEAN", 200)):
        monkeypatch.setattr(_block_clusters, name, value)


@pytest.fixture
def found(monkeypatch):
    """What runs have had to do with clusters: the clusters, the point after them, and the problems."""
    seen = {"clusters": [], "points": [], "problems": []}
    from_clusters, solve = block._Run.from_clusters, block.solve

    class Recorded(_block_clusters.Clusters):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            seen["clusters"].append(self)

    def recorded_start(run):
        used = from_clusters(run)
        seen["points"].append(run.u.copy() if used else None)
        return used

    def recorded_solve(problem, *arguments):
        seen["problems"].append(problem)
        return solve(problem, *arguments)

    monkeypatch.setattr(block, "Clusters", Recorded)
    monkeypatch.setattr(block._Run, "from_clusters", recorded_start)
    monkeypatch.setattr(block, "solve", recorded_solve)
    return seen


def model(**settings):
    return SVC(**{"C": 1.0, "gamma": 0.5, "solver": "block", "n_jobs": 2, **settings})


def test_parts_hold_every_variable_once(noisy, small_parts, found):
    model().fit(*noisy)
    [clusters] = found["clusters"]
    assert len(clusters.parts) >= ROWS // 512
    assert max(part.size for part in clusters.parts) <= 512
    assert np.array_equal(np.sort(np.concatenate(clusters.parts)), np.arange(ROWS))
    assert min(part.size for part in clusters.parts) > 0
    assert np.any(found["points"][0])


def test_neighbours_are_in_the_same_part(small_parts, found):
    """Of blobs far apart none shares a part with another, but for what a sample may miss."""
    rng = np.random.default_rng(1)
    blob = np.repeat(np.arange(12), ROWS // 12)
    X = rng.normal(size=(ROWS, 2)) + 20.0 * np.stack([blob % 4, blob // 4], axis=1)
    model().fit(X, rng.integers(2, size=ROWS))
    [clusters] = found["clusters"]
    apart = np.array([np.unique(blob[part]).size for part in clusters.parts])
    assert apart.mean() < 3.0  # drawn at random, a part of 200 would have all 12


def test_the_start_is_feasible_and_most_of_the_way(noisy, small_parts, found):
    model().fit(*noisy)
    [problem], [start] = found["problems"], found["points"]
    outcome = block.solve(problem, block.Options(tol=1e-6), lambda snapshot: False)
    ends = certify(problem, outcome.a)[0]
    a = np.abs(start)  # u = y a
    began = certify(problem, a)[0]
    assert began.infeasibility <= 1e-12
    assert began.dual > 0.5 * ends.dual  # a start from nothing has 0
    bounded = outcome.a == problem.hi
    assert np.mean(a[bounded] == problem.hi[bounded]) > 0.5


def test_the_optimum_is_the_one_of_others(noisy, small_parts, found, monkeypatch):
    X, y = noisy
    ours = model(tol=1e-6).fit(X, y)
    assert found["points"][0] is not None
    peer = svm.SVC(C=1.0, gamma=0.5, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)
    monkeypatch.setattr(_block_clusters, "_WORTH", 2.0)
    without = model(tol=1e-6).fit(X, y)
    assert found["points"][1] is None
    assert ours.certificate_.dual == pytest.approx(without.certificate_.dual, rel=1e-7)


def test_the_start_is_the_same_for_any_number_of_threads(noisy, small_parts, found):
    for threads in (1, 2, 2):
        model(n_jobs=threads).fit(*noisy)
    one, two, again = found["points"]
    assert np.any(one)
    assert np.array_equal(one, two)
    assert np.array_equal(two, again)


def test_another_seed_finds_other_clusters(noisy, small_parts, found):
    model().fit(*noisy)
    [problem] = found["problems"]
    found["points"].clear()
    for seed in (1, 2):
        block.solve(problem, block.Options(seed=seed), lambda snapshot: False)
    assert not np.array_equal(*found["points"])


def test_a_run_can_be_stopped_between_parts(noisy, small_parts, found):
    model().fit(*noisy)
    [problem] = found["problems"]
    looks = []

    def stop(snapshot):
        looks.append(snapshot)
        return snapshot.objective is None

    outcome = block.solve(problem, block.Options(), stop)
    assert outcome.status is Status.STOPPED
    assert len(looks) == 2
    assert looks[0].gradient is not None
    assert outcome.iterations == looks[1].iteration > 0
    assert looks[1].kernel_evaluations > looks[0].kernel_evaluations
    certificate, _ = certify(problem, outcome.a)
    assert certificate.infeasibility <= 1e-12
    assert np.any(outcome.a)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"gamma": 0.02, "C": 100.0}, "clean"),  # few move
        ({"max_iter": 10_000}, "noisy"),  # steps are counted
        ({"cache_size": 1}, "noisy"),  # no room for the rows of parts
        ({"kernel": "poly", "degree": 2}, "noisy"),  # rows are not made on demand
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_where_clusters_do_not_pay_they_are_left_alone(settings, labels, noisy, small_parts, found):
    X, y = noisy
    if labels == "clean":
        y = np.where(X[:, 0] > 0.0, 1, -1)
    model(**settings).fit(X, y)
    [start] = found["points"]
    assert start is None


def test_clusters_of_points_that_are_all_the_same(small_parts, found):
    """Medoids that coincide leave clusters empty."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(3, 2)), ROWS // 3, axis=0)
    y = rng.integers(2, size=ROWS)
    fitted = model(tol=1e-4).fit(X, y)
    assert found["points"][0] is not None
    assert fitted.certificate_.kkt_violation <= 1e-4
    assert fitted.certificate_.infeasibility <= 1e-12


def test_what_finds_out_that_clusters_do_not_pay_is_counted(noisy, small_parts, found, monkeypatch):
    """Its kernel entries, that is; none of its steps have moved anything."""
    monkeypatch.setattr(_block_clusters, "_WORTH", 2.0)
    model().fit(*noisy)
    [problem] = found["problems"]
    looks = []

    def stop(snapshot):
        looks.append(snapshot)
        return True

    block.solve(problem, block.Options(), stop)
    assert looks[0].kernel_evaluations > 0
    assert looks[0].iteration == 0

"""The last digits of small problems: certified, never worse, the same whatever has led there."""

from dataclasses import replace

import numpy as np
import pytest
import sklearn.svm
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dualgap
from dualgap.finish import finish
from dualgap.result import Status
from dualgap.run import FEW

ROWS = {
    "c_svc": {"C": 2.0},
    "nu_svc": {"nu": 0.3},
    "eps_svr": {"C": 2.0, "epsilon": 0.1},
    "nu_svr": {"C": 2.0, "nu": 0.4},
    "one_class": {"nu": 0.3},
    "svdd": {"C": 0.1},
    "squared_hinge": {"C": 2.0},
}


def make(row, n=60, kernel="rbf", seed=0, repeated=False, weight=None, **more):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = X[:, 0] + 0.5 * rng.normal(size=n)
    if repeated:
        X, score = (np.concatenate([part[: n - n // 2], part[: n // 2]]) for part in (X, score))
    y = score if row.endswith("svr") else np.where(score > np.median(score), 1.0, -1.0)
    gram = dualgap.make_gram(X, dualgap.Kernel(kernel, gamma=0.25))
    return dualgap.build(row, gram, y, sample_weight=weight, **{**ROWS[row], **more})


def rounding(problem, result):
    """Of the slopes: float64 carries sixteen digits, and sums of n terms lose a few."""
    gram = np.abs(problem.gram.block(problem.points, problem.points)).max()
    return 1e-13 * (problem.n * gram * np.abs(result.a).sum() + np.abs(problem.f0).max())


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("row", ROWS)
def test_optimal_to_rounding(row, kernel, repeated):
    problem = make(row, kernel=kernel, repeated=repeated)
    rough = dualgap.solve(problem, tol=1e-3)
    done = finish(problem, rough)
    assert done.certificate.kkt_violation <= rounding(problem, done)
    assert done.certificate.infeasibility <= 1e-12
    assert done.certificate.dual >= rough.certificate.dual * (1 - 1e-12) - 1e-12
    assert np.all((done.a >= problem.lo) & (done.a <= problem.hi))
    assert done.status is Status.CONVERGED
    assert done.history[-1].relative_gap == done.certificate.relative_gap
    assert len(done.history) == len(rough.history) + 1


@given(
    seed=st.integers(0, 10_000), n=st.integers(4, 80), C=st.floats(1e-3, 1e4), row=st.sampled_from(["c_svc", "eps_svr"])
)
def test_never_worse(seed, n, C, row):
    problem = make(row, n=n, seed=seed, C=C, repeated=seed % 3 == 0)
    rough = dualgap.solve(problem, tol=1e-2)
    done = finish(problem, rough)
    assert done.certificate.kkt_violation <= rough.certificate.kkt_violation
    assert done.certificate.infeasibility <= 1e-12


@pytest.mark.parametrize("row", ["c_svc", "eps_svr", "nu_svc", "one_class"])
def test_the_same_function_from_anywhere(row):
    """Coefficients of repeated points are not unique; the function is."""
    problem = make(row, repeated=True)
    found = []
    for solver in ("smo", "block", "ipm"):
        done = finish(problem, dualgap.solve(problem, solver, tol=1e-3))
        found.append(problem.gram.exact(problem.on_points(done.a)))
    for other in found[1:]:
        assert_allclose(other, found[0], atol=1e-11 * np.abs(found[0]).max())


def test_agrees_with_another_library():
    rng = np.random.default_rng(3)
    X = np.round(64 * rng.normal(size=(80, 3))) / 64  # what float32 holds of it is exact
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0, 1.0, -1.0)
    problem = dualgap.build("c_svc", dualgap.make_gram(X, dualgap.Kernel("linear")), y, C=0.5)
    done = finish(problem, dualgap.solve(problem, tol=1e-2))
    theirs = sklearn.svm.SVC(kernel="linear", C=0.5, tol=1e-12).fit(X, y)
    assert_allclose(problem.on_points(done.a) @ X, theirs.coef_[0], rtol=1e-7)


def test_what_is_returned_as_it_is():
    problem = make("c_svc", n=FEW + 1)
    result = dualgap.solve(problem)
    assert finish(problem, result) is result
    problem = make("c_svc")
    short = dualgap.solve(problem, max_iter=3, warn=False)
    assert finish(problem, short) is short
    result = dualgap.solve(problem)
    noted = replace(result, certificate=replace(result.certificate, note="indefinite"))
    assert finish(problem, noted) is noted


def test_limit_of_iterations():
    problem = make("eps_svr", n=100, C=100.0)
    rough = dualgap.solve(problem, tol=0.5)
    done = finish(problem, rough, max_iter=rough.iterations)
    assert done.iterations == rough.iterations


def test_callback_sees_the_end():
    seen = []
    problem = make("c_svc")
    done = finish(problem, dualgap.solve(problem), callback=seen.append)
    assert seen == [done.history[-1]]


def test_coupled_constraints():
    """Semi-parametric machines, which pair steps do not take."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = np.where(X[:, 0] > 0.2 * rng.normal(size=50), 1.0, -1.0)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.5))
    problem = dualgap.build("c_svc", gram, y, C=1.0, parametric=X)
    rough = dualgap.solve(problem, tol=1e-3)
    done = finish(problem, rough)
    assert done.certificate.kkt_violation <= rounding(problem, done)

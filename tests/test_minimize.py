"""`minimize`: what describes a problem, callbacks, limits, history, bad input; and the smoothing schemes."""

import doctest
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import dualgap
from dualgap import Status, minimize, minimize_smoothed, primal_svm
from dualgap.minimization import minimize_composite
from dualgap.smoothing import smoothed, with_multipliers

sys.path.insert(0, str(Path(__file__).parent))
from composites import data, problem, svm_optimum

X, Y, T = data()
LOGISTIC = {"name": "logistic", "y": Y, "C": 2.0}


def test_logistic_regression_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    theirs = LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000).fit(X, Y)
    ours = minimize(LOGISTIC, X, {"name": "l2", "weight": 0.5}, bias=True, tol=1e-8)
    assert ours.success
    assert ours.x[:-1] == pytest.approx(theirs.coef_[0], abs=1e-5)
    assert ours.x[-1] == pytest.approx(theirs.intercept_[0], abs=1e-5)


def test_weights_by_coordinate_and_free_coordinates():
    weight = np.linspace(0.0, 1.0, 8)
    whole = minimize({"name": "squared", "y": T}, X, {"name": "l2", "weight": weight}, tol=1e-9)
    free = minimize({"name": "squared", "y": T}, X, {"name": "l2", "weight": weight[1:]}, free=[0], tol=1e-9)
    expected = np.linalg.solve(X.T @ X + np.diag(weight), X.T @ T)
    assert whole.x == pytest.approx(expected, abs=1e-9)
    assert free.x == pytest.approx(expected, abs=1e-9)


def test_objects_of_a_users_own():
    class Quartic:
        def value(self, z):
            return float(np.sum((z - T) ** 4))

        def gradient(self, z):
            return 4 * (z - T) ** 3

        def curvature(self, z):
            return 12 * (z - T) ** 2

    result = minimize(Quartic(), X, "l2", tol=1e-7)
    assert result.success
    from scipy.optimize import minimize as scipy_minimize

    theirs = scipy_minimize(lambda x: Quartic().value(X @ x) + x @ x, np.zeros(8), tol=1e-10)
    assert result.fun == pytest.approx(theirs.fun, rel=1e-8)
    with pytest.raises(TypeError, match="exact"):
        dualgap.certify_composite(dualgap.Composite(problem("squared", bias=False).operator, Quartic(), None), result.x)


def test_callback_history_and_stopping():
    seen = []

    def stop_at_five(step):
        seen.append((step.iteration, step.fun, step.x.copy()))
        return step.iteration == 5

    result = minimize(LOGISTIC, X, "l2", callback=stop_at_five)
    assert result.status is Status.STOPPED
    assert not result.success
    assert result.nit == 5
    assert [s.iteration for s in result.history] == list(range(6))
    assert [s.n_products for s in result.history] == [2 * k + 1 for k in range(6)]
    assert seen[-1][1] == result.history[-1].fun
    assert np.array_equal(seen[-1][2], result.x)
    assert result.history[-1].seconds <= result.seconds

    def raises(step):
        raise StopIteration

    assert minimize(LOGISTIC, X, "l2", callback=raises).status is Status.STOPPED


@pytest.mark.parametrize("method", ["sesop", "cg", "tn", "nesterov"])
def test_limits(method):
    short = minimize(LOGISTIC, X, "l2", method=method, max_iter=2, tol=1e-12)
    assert short.status is Status.MAX_ITER
    assert short.nit == 2
    assert "max_iter" in short.message
    timed = minimize(LOGISTIC, X, "l2", method=method, time_limit=1e-6, tol=1e-12)
    assert timed.status is Status.TIME_LIMIT
    assert timed.nit == 0


@pytest.mark.parametrize("method", ["sesop", "sesop1-", "cg_fast", "cg_plain", "tn", "nesterov"])
def test_beyond_rounding_is_a_stall_not_a_loop(method):
    result = minimize({"name": "squared", "y": T * 1e6}, X, "l2", method=method, tol=1e-30, max_iter=3000)
    assert result.status in (Status.STALLED, Status.MAX_ITER)
    assert not result.success
    assert np.isfinite(result.fun)
    # Eight digits below the first gradient, which is 1.5e8: the objective, 1.7e13, tells no more in float64.
    assert result.gradient_norm < 1.5


def test_names_are_not_case_sensitive():
    assert minimize(LOGISTIC, X, "l2", method="SESOP1-").success


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "newton"}, ValueError, "Unknown method 'newton'"),
        ({"tol": 0.0}, ValueError, "tol must be"),
        ({"tol": float("nan")}, ValueError, "tol must be"),
        ({"time_limit": -1.0}, ValueError, "time_limit"),
        ({"x0": np.zeros(3)}, ValueError, "x0 must be 8"),
        ({"x0": np.full(8, np.nan)}, ValueError, "finite"),
        ({"free": [8]}, ValueError, "free must name"),
        ({"energy": 1.0}, ValueError, "energy needs"),
        ({"energy": 1.0, "bias": True}, ValueError, "energy needs"),
        ({"energy": -1.0}, ValueError, "energy must be"),
        ({"psi": {"name": "l2", "weight": np.ones(3)}}, ValueError, "3 weights for 8"),
        ({"phi": {"name": "logistic", "y": Y[:5]}}, ValueError, "5 samples and the operator 60"),
        ({"method": "tn", "inner": 0}, ValueError, "inner"),
        ({"method": "cg", "steps": 3}, ValueError, "Unknown option 'steps'"),
    ],
)
def test_bad_input(arguments, error, message):
    call = {"phi": LOGISTIC, "A": X, "psi": "l2", **arguments}
    with pytest.raises(error, match=message):
        minimize(**call)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("scheme", ["multipliers", "continuation"])
@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("p", [1, 2])
def test_smoothing_reaches_the_optimum_without_smoothing(p, q, scheme, kernel):
    A = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.1)) if kernel else X
    result = minimize_smoothed(primal_svm(A, Y, C=1.5, p=p, q=q, eps=0.1), gap_tol=1e-6, scheme=scheme)
    assert result.success, result.message
    best = svm_optimum(A.matrix if kernel else X, Y, 1.5, p, q, kernel)
    assert result.certificate.primal == pytest.approx(best, rel=2e-6)
    assert result.certificate.dual <= best * (1 + 1e-9)
    assert result.certificate.primal >= best * (1 - 1e-9)
    assert result.rounds[-1].relative_gap == result.certificate.relative_gap <= 1e-6
    assert result.n_products == sum(r.n_products for r in result.rounds)


@pytest.mark.parametrize("method", ["sesop8", "cg_fast"])
def test_smoothing_with_other_solvers(method):
    result = minimize_smoothed(primal_svm(X, Y, eps=0.1), gap_tol=1e-3, method=method)
    assert result.success
    assert result.certificate.primal == pytest.approx(svm_optimum(X, Y, 1.0, 1, 1), rel=1e-3)


def test_multipliers_need_no_small_eps():
    """A fixed eps, by hand: the bound rises round by round (a proximal point method); smoothing alone is stuck."""
    p = start = primal_svm(X, Y, eps=0.05)
    bounds, gaps, x = [], [], None
    for _ in range(10):
        x = minimize_composite(p, x, "tn", tol=1e-9).x
        z = p.operator.matvec(x)
        certificate, _ = dualgap.certify_composite(start, x, p.loss.gradient(z))
        bounds.append(certificate.dual)
        gaps.append(certificate.relative_gap)
        p = with_multipliers(p, x, z)
    assert np.all(np.diff(bounds) > 0.0)
    assert min(gaps) < 0.05 * gaps[0]


def test_another_eps_keeps_the_multipliers():
    p = primal_svm(X, Y, eps=0.05)
    x = np.linspace(-0.1, 0.1, p.n)
    z = p.operator.matvec(x)
    moved = with_multipliers(p, x, z)
    at_kinks = np.zeros(8)
    sharper = smoothed(moved, 0.01)
    assert sharper.regulariser.gradient(at_kinks) == pytest.approx(moved.regulariser.gradient(at_kinks))
    # The multiplier is the slope at the last point, now taken at the kink.
    assert moved.regulariser.gradient(at_kinks) == pytest.approx(p.regulariser.gradient(x[:-1]))


def test_examples_in_docstrings_run():
    for name in ("dualgap.minimization", "dualgap.primal"):
        results = doctest.testmod(importlib.import_module(name))
        assert results.attempted > 0
        assert results.failed == 0


def test_smoothing_limits_and_bad_input():
    p = primal_svm(X, Y)
    few = minimize_smoothed(p, gap_tol=1e-9, max_rounds=2)
    assert (few.status, len(few.rounds)) == (Status.MAX_ITER, 2)
    assert minimize_smoothed(p, gap_tol=1e-9, time_limit=1e-6).status is Status.TIME_LIMIT
    assert minimize_smoothed(p, gap_tol=1e-9, callback=lambda r: True).status is Status.STOPPED
    for arguments, message in (
        ({"scheme": "magic"}, "scheme must be"),
        ({"gap_tol": 0.0}, "gap_tol must be"),
        ({"max_rounds": 0}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            minimize_smoothed(p, **arguments)
    for arguments, message in (({"p": 3}, "p and q"), ({"C": 0.0}, "C must be"), ({"sample_weight": [1.0]}, "hold 60")):
        with pytest.raises(ValueError, match=message):
            primal_svm(X, Y, **arguments)

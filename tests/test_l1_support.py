"""The features that an L1-SVM with hinge selects, on real data: those of the whole linear program, by HiGHS.

A linear program may have many solutions, and then supports differ with good reason. A feature that every solution uses
has ``|v_j| = 1`` at any optimal multipliers, and one with ``|v_j| < 1`` has weight 0 in every solution (complementary
slackness): so the weights of HiGHS, judged by our multipliers, must be zero where ours prove it, and conversely.
Samples with a multiplier inside of (0, C) are at their margins in every solution. Where these equations leave no
freedom to the features that may have a weight, the solution is unique, and the supports must be equal.

madelon and news20 are left out: HiGHS takes a quarter of a minute and more for them.
"""

import os

import numpy as np
import pytest
import scipy.sparse as sp

pytestmark = pytest.mark.skipif(
    not os.environ.get("DUALGAP_DATA"), reason="DUALGAP_DATA is not set: these tests need real data sets"
)
# A multiplier of HiGHS is within its tolerance of where it should be.
TOLERANCE = 1e-6
SETS = ("dexter", "internet_ads", "arcene", "reuters", "dorothea")


@pytest.fixture(scope="module", params=SETS)
def solved(request):
    from dualgap.bench.l1 import read_l1
    from dualgap.bench.l1_libraries import ready
    from dualgap.l1svm import solve_l1_svm

    X, y = read_l1(request.param)
    theirs, _ = ready("highs", X, y, "hinge", 1.0, 60.0)({"tol": 0.0})
    return request.param, X, y, solve_l1_svm(X, y, 1.0), theirs


def test_features_that_are_not_selected_are_zero_exactly(solved):
    _, X, y, ours, theirs = solved
    assert ours.certificate.relative_gap <= 1e-12
    slack = np.maximum(0.0, 1.0 - y * (X @ theirs[:-1] + theirs[-1]))
    assert np.abs(theirs[:-1]).sum() + slack.sum() == pytest.approx(ours.certificate.primal, rel=1e-9)
    v = np.abs(sp.csr_matrix(X).T @ (y * ours.a))
    assert np.all(ours.coef[v < 1.0 - TOLERANCE] == 0.0)
    assert np.count_nonzero(ours.coef) < 0.1 * X.shape[1]
    # What our multipliers exclude, no solution of the program has.
    assert np.all(np.abs(theirs[:-1][v < 1.0 - TOLERANCE]) <= TOLERANCE)


def test_the_support_is_that_of_the_whole_program(solved):
    name, X, y, ours, theirs = solved
    mine, other = np.flatnonzero(ours.coef), np.flatnonzero(np.abs(theirs[:-1]) > TOLERANCE)
    if freedom(X, y, ours) == 0:
        assert np.array_equal(mine, other), name
    if np.array_equal(mine, other):
        assert ours.coef[mine] == pytest.approx(theirs[mine], abs=1e-6)
        return
    # Several solutions: half-way between two is another one, which proves it.
    half = 0.5 * (np.append(ours.coef, ours.intercept) + theirs)
    slack = np.maximum(0.0, 1.0 - y * (X @ half[:-1] + half[-1]))
    assert np.abs(half[:-1]).sum() + slack.sum() == pytest.approx(ours.certificate.primal, rel=1e-9), name


def freedom(X, y, ours):
    """Dimensions in which solutions may differ: those of features with ``|v_j| = 1``, and the bias, less equations."""
    v = np.abs(sp.csr_matrix(X).T @ (y * ours.a))
    may = np.flatnonzero(v >= 1.0 - TOLERANCE)
    at_margin = np.flatnonzero((ours.a > TOLERANCE) & (ours.a < 1.0 - TOLERANCE))
    Z = sp.csr_matrix(X)[at_margin][:, may].toarray()
    return may.size + 1 - np.linalg.matrix_rank(np.hstack([Z, np.ones((at_margin.size, 1))]), tol=1e-9)

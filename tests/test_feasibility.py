"""Constraints on an orthonormal basis, and the way back onto them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap import DualQP, Kernel, make_gram
from dualgap.constraints import FEASIBLE, InfeasibleProblemError, feasible_start, infeasibility
from dualgap.feasibility import orthonormal, restored

sys.path.insert(0, str(Path(__file__).parent))
from problems import problem


def _problem(F, e, hi):
    n = F.shape[0]
    g = make_gram(np.arange(n, dtype=float)[:, None], Kernel("rbf", gamma=1.0))
    return DualQP(g, np.arange(n), np.ones(n), np.zeros(n), np.zeros(n), np.zeros(n), hi, F, e)


@given(st.integers(0, 10_000), st.integers(1, 4), st.floats(0.0, 0.3))
def test_restored_points_obey_the_constraints(seed, k, noise):
    rng = np.random.default_rng(seed)
    n = 40
    F = rng.normal(size=(n, k))
    hi = rng.uniform(0.5, 2.0, size=n)
    inside = rng.uniform(0.1, 0.9, size=n) * hi
    p = _problem(F, F.T @ inside, hi)
    off = np.clip(inside + noise * rng.normal(size=n) * hi, p.lo, hi)
    found = restored(off, p.lo, hi, orthonormal(p), rng.normal(size=n))
    assert infeasibility(p, found) < 1e-13
    # The way back to `inside` is one correction; the one found, in proportion to each variable's room, is no detour.
    assert np.linalg.norm(found - off) <= 10.0 * np.linalg.norm(off - inside) + 1e-12


@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
def test_a_start_near_a_point_is_found_in_boxes_without_end(seed, endless):
    # What is missing is taken from room without end, and no more than that.
    rng = np.random.default_rng(seed)
    hi = np.where(rng.random(30) < endless, np.inf, 2.0)
    p = _problem(np.ones((30, 1)), np.array([25.0]), hi)
    a = feasible_start(p, rng.uniform(0.0, 2.0, size=30))
    assert np.isfinite(a).all()
    assert infeasibility(p, a) <= FEASIBLE


def test_variables_leave_their_bounds_only_where_free_ones_do_not_suffice():
    """A sum that one free variable restores, and one that needs the bounded variable with the least slope."""
    F, hi = np.ones((4, 1)), np.ones(4)
    slope = np.array([3.0, 1.0, 2.0, 0.0])
    a = np.array([0.0, 0.0, 1.0, 0.5])
    p = _problem(F, np.array([1.6]), hi)
    assert np.allclose(restored(a, p.lo, hi, orthonormal(p), slope), [0.0, 0.0, 1.0, 0.6], rtol=0, atol=1e-15)
    p = _problem(F, np.array([2.5]), hi)
    found = restored(a, p.lo, hi, orthonormal(p), slope)
    assert found.sum() == pytest.approx(2.5, abs=1e-14)
    assert np.all((found >= 0.0) & (found <= 1.0))


def test_basis_is_orthonormal_and_speaks_for_the_constraints():
    p = problem("c_svc", functions=3, n=40)
    scale = np.where(np.arange(p.n) % 2 == 0, -1.0, 2.0)
    basis = orthonormal(p, scale)
    assert np.allclose(basis.U.T @ basis.U, np.eye(p.k), atol=1e-12)
    F = p.F / scale[:, None]
    eta = np.arange(1.0, p.k + 1)
    multipliers = basis.multipliers(F, eta)
    assert np.allclose(basis.U @ multipliers, F @ eta)
    assert np.allclose(basis.to_eta @ multipliers, eta)


def test_repeated_constraints_are_dropped_and_contradictions_refused():
    F = np.column_stack([np.ones(5), 2.0 * np.ones(5)])
    basis = orthonormal(_problem(F, np.array([1.0, 2.0]), np.ones(5)))
    assert basis.c.size == 1
    with pytest.raises(InfeasibleProblemError):
        orthonormal(_problem(F, np.array([1.0, 3.0]), np.ones(5)))

"""Every solver on every formulation and every kind of Gram: a certified gap, or a stated refusal."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dualgap
from dualgap import SOLVERS, certify, solve

sys.path.insert(0, str(Path(__file__).parents[1]))
from problems import GRAMS, ROWS, has_model_without_bias, problem

SHAPES = ("plain", "no bias", "semi-parametric")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", GRAMS)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", SOLVERS)
def test_certified_gap_or_stated_refusal(name, row, kind, shape):
    if shape == "no bias" and not has_model_without_bias(row):
        with pytest.raises(ValueError, match="trivial solution"):
            problem(row, kind, bias=False)
        return
    p = problem(row, kind, bias=shape != "no bias", functions=2 if shape == "semi-parametric" else 0)
    reason = SOLVERS[name].supports(p)
    if reason is not None:
        assert len(reason) > 20
        with pytest.raises(dualgap.UnsupportedProblemError, match="cannot take this problem"):
            solve(p, name)
        return
    if getattr(SOLVERS[name], "BASELINE", False):
        baseline_is_honest(p, name)
        return
    for goal in ({"gap_tol": 1e-7}, {"tol": 1e-5}):
        result = solve(p, name, **goal)
        assert result.status is dualgap.Status.CONVERGED
        again, _ = certify(p, result.a, result.eta)
        # Another start of the search for the multipliers may round differently.
        assert again.primal == pytest.approx(result.certificate.primal, rel=1e-12)
        assert again.dual == result.certificate.dual
        assert again.infeasibility < 1e-12
        if "gap_tol" in goal:
            assert 0.0 <= again.relative_gap <= 1e-7
        else:
            assert again.kkt_violation <= 1e-5 * (1 + 1e-8)
        assert again.primal >= again.dual
        assert result.iterations > 0
        assert len(result.history) > 0


def baseline_is_honest(p, name):
    """A baseline cannot be asked for 1e-7: its gap falls with its passes, and no more is claimed than is certified."""
    gaps = []
    for passes in (3, 30, 300):
        result = solve(p, name, gap_tol=1e-7, max_iter=passes, warn=False)
        again, _ = certify(p, result.a, result.eta)
        assert again.dual == result.certificate.dual
        assert again.infeasibility == 0.0
        assert (result.status is dualgap.Status.CONVERGED) == (again.relative_gap <= 1e-7)
        assert result.iterations <= passes
        gaps.append(again.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    with pytest.warns(dualgap.NotCertifiedWarning, match="ended short of"):
        solve(p, name, gap_tol=1e-12, max_iter=3)


@pytest.mark.parametrize("name", SOLVERS)
def test_smo_refuses_coupled_constraints_by_name(name):
    # Linear solvers look for a factor first.
    p = problem("eps_svr", "factored", functions=2)
    reason = SOLVERS[name].supports(p)
    assert reason is None or "coupled" in reason


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("row", ROWS)
def test_deterministic_bit_for_bit(name, row):
    problems = (problem(row, kind, bias=bias) for kind in ("full", "factored") for bias in biases(row))
    taken = next((p for p in problems if SOLVERS[name].supports(p) is None), None)
    if taken is None:  # no form of this row: stated above
        return
    limit = {"max_iter": 20, "warn": False} if getattr(SOLVERS[name], "BASELINE", False) else {}
    first, second = (solve(taken, name, gap_tol=1e-6, **limit) for _ in range(2))
    assert np.array_equal(first.a, second.a)
    assert np.array_equal(first.eta, second.eta)
    assert first.iterations == second.iterations


def biases(row):
    return (True, False) if has_model_without_bias(row) else (True,)

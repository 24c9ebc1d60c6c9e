"""The semi-parametric experiment at sizes that a test can afford."""

import numpy as np
import pytest

from dualgap import solve
from dualgap.bench.semiparametric import PENALTIES, experiment, functions, measure, samples


def test_samples_are_the_papers():
    x, y = samples(20_000, seed=3)
    assert x.min() >= 0.0
    assert x.max() <= 10.0
    z = 2 * np.pi * (x - 5)
    noise = y - np.sin(x) - np.sin(z) / z
    assert noise.std() == pytest.approx(0.2, rel=0.02)
    assert abs(noise.mean()) < 0.01
    assert np.abs(noise).max() <= 0.2 * np.sqrt(3)
    assert np.array_equal(samples(50, seed=1)[1], samples(50, seed=1)[1])
    assert functions(np.array([5.0]))[0, 1] == 1.0


def test_the_problem_is_table_1s():
    p = experiment(40, 10.0)
    assert p.k == 2
    assert p.columns == ("phi0", "phi1")
    assert np.all(p.hi == 10.0 / 40)
    assert experiment(40, bias=True).k == 3


@pytest.mark.parametrize("C", PENALTIES)
@pytest.mark.parametrize("m", [50, 500])
def test_coefficients_are_recovered(m, C):
    figures = measure(m, C, gap_tol=1e-6)
    assert figures.status == "CONVERGED"
    assert figures.relative_gap <= 1e-6
    assert figures.infeasibility < 1e-12
    # Standard errors of both coefficients, from the noise and the functions' squares over [0, 10].
    errors = 0.2 / np.sqrt(m * np.mean(functions(np.linspace(0, 10, 1001)) ** 2, axis=0))
    assert np.all(np.abs(np.array(figures.beta) - 1.0) < 4 * errors)
    again = solve(experiment(m, C), "ipm", gap_tol=1e-7)
    # The gap bounds the objective; the coefficients follow it to its square root.
    assert np.allclose(figures.beta, again.eta, atol=5e-3)


def test_working_sets_and_random_parts_agree_with_one_set():
    """More variables than one working set holds: 3000 of them, started from parts of parts."""
    whole = measure(1500, 1.0, gap_tol=1e-7, working_set=3000)
    parts = measure(1500, 1.0, gap_tol=1e-7, working_set=200)
    assert whole.status == parts.status == "CONVERGED"
    assert np.allclose(whole.beta, parts.beta, atol=1e-3)
    assert parts.infeasibility < 1e-12

"""Losses and regularisers: derivatives against differences, conjugates against weak duality, bad input."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap import smooth_abs
from dualgap.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge, make_loss
from dualgap.regularisers import Penalty, make_regulariser, penalty

sys.path.insert(0, str(Path(__file__).parent))
from composites import NAMES, REGULARISERS, loss


def check_derivatives(f, x, curvature_kinks=()):
    step = 1e-6
    for i in range(x.size):
        unit = np.zeros_like(x)
        unit[i] = step
        slope = (f.value(x + unit) - f.value(x - unit)) / (2 * step)
        assert f.gradient(x)[i] == pytest.approx(slope, rel=1e-5, abs=1e-7)
        bent = (f.gradient(x + unit)[i] - f.gradient(x - unit)[i]) / (2 * step)
        assert f.curvature(x)[i] == pytest.approx(bent, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_losses(name):
    # Random points are at a distance from the kinks of second derivatives.
    check_derivatives(loss(name), np.random.default_rng(3).normal(size=60) * 2)


@pytest.mark.parametrize("kind", [Hinge, EpsilonInsensitive])
def test_derivatives_with_multipliers(kind):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20) > 0.5, 1.0, -1.0)
    shift = rng.normal(size=20 if kind is Hinge else (2, 20)) * 0.05
    f = kind(y, 2.0, eps=0.05, shift=shift)
    check_derivatives(f, rng.normal(size=20))
    g = Penalty(l1=rng.random(20), l2=rng.random(20), eps=0.05, shift=rng.normal(size=20) * 0.05)
    check_derivatives(g, rng.normal(size=20))


@pytest.mark.parametrize("name", [*REGULARISERS, "none"])
def test_derivatives_of_regularisers(name):
    x = np.random.default_rng(1).normal(size=12)
    weight = np.random.default_rng(2).random(12)
    check_derivatives(penalty(name, weight), x)


def test_smooth_absolute_value_as_the_paper_has_it():
    s = np.linspace(-3.0, 3.0, 41)
    for eps in (1.0, 1e-2):
        printed = eps * (np.abs(s / eps) + 1.0 / (np.abs(s / eps) + 1.0) - 1.0)
        assert smooth_abs.value(s, eps) == pytest.approx(printed, abs=1e-12)
        assert np.all(np.abs(s) - smooth_abs.value(s, eps) <= eps)
    assert smooth_abs.slope(np.array([0.0, 1e9, -1e9]), 1e-3) == pytest.approx([0.0, 1.0, -1.0])


@given(st.sampled_from(NAMES), st.integers(0, 1000), st.floats(0.0, 1.0))
def test_excess_is_value_plus_conjugate_less_product(name, seed, share):
    f = loss(name, seed)
    rng = np.random.default_rng(seed)
    z = rng.normal(size=60) * 3
    low, high = f.bounds()
    low, high = np.maximum(low, -5.0), np.minimum(high, 5.0)
    u = low + (high - low) * np.where(rng.random(60) < share, rng.random(60), np.round(rng.random(60)))
    excess = f.excess(z, u)
    assert np.all(excess >= 0.0)
    assert excess.sum() == pytest.approx(f.exact(z) + f.conjugate(u) - u @ z, rel=1e-10, abs=1e-9)
    # Young's inequality is an equality at the slope (of a loss that is smooth as it is).
    if name not in ("hinge", "epsilon_insensitive"):
        assert f.excess(z, f.gradient(z)) == pytest.approx(np.zeros(60), abs=1e-10)


@given(st.integers(0, 1000), st.booleans(), st.booleans())
def test_excess_of_a_penalty(seed, with_l1, with_l2):
    rng = np.random.default_rng(seed)
    f = Penalty(l1=rng.random(9) * with_l1, l2=rng.random(9) * with_l2)
    x, v = rng.normal(size=9), rng.normal(size=9)
    v *= min(1.0, f.reach(v)) if np.isfinite(f.reach(v)) else 1.0
    excess = f.excess(x, v)
    assert np.all(excess >= 0.0)
    assert excess.sum() == pytest.approx(f.exact(x) + f.conjugate(v * (1 - 1e-15)) - v @ x, rel=1e-9, abs=1e-9)


def test_conjugate_is_infinite_outside():
    assert Penalty(l1=1.0).conjugate(np.array([0.5, 1.5])) == np.inf
    assert Penalty(l1=1.0).reach(np.array([0.5, 2.0])) == 0.5
    assert Penalty(l2=1.0).reach(np.array([3.0])) == np.inf


def test_large_margins_do_not_overflow():
    f = Logistic(np.array([1.0, -1.0, 1.0]))
    z = np.array([1e4, 1e4, -1e4])
    assert f.value(z) == pytest.approx(2e4)
    assert f.gradient(z) == pytest.approx([0.0, 1.0, -1.0])
    assert np.all(f.curvature(z) >= 0.0)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"name": "nonsense", "y": [1.0]}, "Unknown loss"),
        ({"name": "hinge"}, "needs y"),
        ({"name": "hinge", "y": [1.0], "depth": 3}, "takes"),
        ({"name": "hinge", "y": [1.0, 0.5]}, "labels"),
        ({"name": "hinge", "y": [1.0], "eps": 0.0}, "eps must be"),
        ({"name": "huber_hinge", "y": [1.0], "delta": -1.0}, "delta must be"),
        ({"name": "squared", "y": [np.nan]}, "finite"),
        ({"name": "squared", "y": [1.0], "C": -1.0}, "non-negative"),
        ({"name": "epsilon_insensitive", "y": [1.0], "tube": -1.0}, "tube must be"),
        ("hinge", "needs its targets"),
    ],
)
def test_bad_losses(described, message):
    with pytest.raises(ValueError, match=message):
        make_loss(described)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("nonsense", "Unknown regulariser"),
        ({"name": "l2", "eps": 1.0}, "takes weight"),
        ({"name": "l1", "weight": -1.0}, "non-negative"),
        ({"name": "l1", "eps": -1.0}, "eps must be"),
        ({"name": "elastic_net", "l1_ratio": 2.0}, "l1_ratio"),
    ],
)
def test_bad_regularisers(described, message):
    with pytest.raises(ValueError, match=message):
        make_regulariser(described)


def test_objects_without_derivatives_are_refused():
    with pytest.raises(TypeError, match="curvature"):
        make_loss(object())
    with pytest.raises(TypeError, match="curvature"):
        make_regulariser(object())
    squared = SquaredHinge(np.array([1.0, -1.0]))
    assert make_loss(squared) is squared

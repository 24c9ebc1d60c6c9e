"""The best multipliers of one group, against a sort of all kinks."""

import numpy as np
import pytest

from dualgap import multipliers


def by_sorting(scale, slope, lo, hi, rhs):
    """Ends of the interval on which ``rhs - sum_i c_i t_i`` is 0, or the kink at which it changes its sign."""
    kinks, jumps = -slope / scale, np.abs(scale) * (hi - lo)
    order = np.argsort(kinks, kind="stable")
    reached = rhs - np.sum(np.where(scale > 0, scale * hi, scale * lo)) + np.cumsum(jumps[order])
    rounding = 1e-12 * jumps.sum()
    return kinks[order][np.argmax(reached >= -rounding)], kinks[order][np.argmax(reached > rounding)]


@pytest.mark.parametrize("n", [100, 4096, 30000])
@pytest.mark.parametrize("bounds", ["equal", "uneven", "few large"])
@pytest.mark.parametrize("slopes", ["normal", "ties", "sorted"])
@pytest.mark.parametrize("positive", [0.5, 0.03])
def test_ends_are_those_of_sorted_kinks(n, bounds, slopes, positive):
    rng = np.random.default_rng(n)
    members = np.sort(rng.permutation(n + 50)[:n])
    size = n + 50
    scale = np.where(rng.uniform(size=size) < positive, 1.0, -1.0)
    slope = rng.normal(size=size)
    if slopes == "ties":
        slope = np.round(slope, 1)
    elif slopes == "sorted":
        slope = np.sort(slope)
    lo, hi = np.zeros(size), np.ones(size)
    if bounds == "uneven":
        hi = rng.uniform(0.1, 3.0, size=size)
    elif bounds == "few large":
        # A sample of the kinks sees few of those that decide.
        hi = np.where(rng.uniform(size=size) < 0.005, 128.0, 0.125)
    for rhs in (0.0, 0.2 * float(np.sum(hi[members][scale[members] > 0]))):
        found = multipliers._quantile(members, scale, slope, lo, hi, rhs)
        parts = (part[members] for part in (scale, slope, lo, hi))
        np.testing.assert_allclose(found, by_sorting(*parts, rhs), rtol=1e-12, atol=1e-15)


def test_the_ends_of_an_interval_differ():
    """An even number of equal jumps: the derivative is 0 between two kinks, in a sample's bracket as well."""
    n = 8192
    slope = np.random.default_rng(0).normal(size=n)
    scale = np.where(np.arange(n) % 2, 1.0, -1.0)
    first, last = multipliers._quantile(np.arange(n), scale, slope, np.zeros(n), np.ones(n), 0.0)
    kinks = np.sort(-slope / scale)
    assert (first, last) == (kinks[n // 2 - 1], kinks[n // 2])

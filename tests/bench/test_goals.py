"""Goals: gaps that are merged, and the search for the tolerance of a gap."""

from __future__ import annotations

import pytest

from dualgap.bench.goals import MOST_RUNS, loosest_tolerance, merged


def test_gaps_within_a_tenth_are_one_goal_the_smaller():
    assert merged([]) == {}
    assert merged([1.2e-4, 1.0e-4, 1.05e-4]) == {1.0e-4: 1.0e-4, 1.05e-4: 1.0e-4, 1.2e-4: 1.2e-4}
    # Measured from the goal and not from the last gap: a chain of small steps must not carry a goal away.
    assert merged([1.0, 1.08, 1.16]) == {1.0: 1.0, 1.08: 1.0, 1.16: 1.16}


@pytest.mark.parametrize("power", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("factor", [1e-2, 1.0, 30.0])
def test_the_search_ends_close_below_the_goal(power, factor):
    def gap_at(tol):
        tried.append(tol)
        return factor * tol**power

    tried = []
    start = factor * 1e-3**power
    found = loosest_tolerance(gap_at, 1e-6, {1e-3: start})
    assert found.tol is not None
    assert len(tried) <= MOST_RUNS
    assert 1e-6 / 3 <= factor * found.tol**power <= 1e-6


def test_a_default_that_is_close_needs_no_search():
    assert loosest_tolerance(None, 1e-6, {1e-3: 5e-7}).tol == 1e-3


def test_a_gap_that_stays_is_given_up_with_the_reason():
    tried = []

    def gap_at(tol):
        tried.append(tol)
        return max(tol, 2e-5)

    found = loosest_tolerance(gap_at, 1e-6, {1e-3: 1e-3})
    assert found.tol is None
    assert found.reason.startswith("its gap stays at 2.0e-05, down to tol=")
    assert len(tried) <= 3


def test_a_run_that_fails_is_the_reason_unless_another_was_good():
    found = loosest_tolerance(lambda tol: "over the limit of 5 s", 1e-6, {1e-3: 1e-3})
    assert found.tol is None
    assert found.reason.startswith("over the limit of 5 s at tol=")
    assert loosest_tolerance(lambda tol: "over the limit", 1e-6, {1e-3: 1e-3, 1e-9: 1e-9}).tol == 1e-9


def test_a_jump_across_the_goal_keeps_the_loosest_that_meets_it():
    found = loosest_tolerance(lambda tol: 1e-3 if tol > 1e-5 else 1e-9, 1e-6, {1e-3: 1e-3})
    assert 0.0 < found.tol <= 1e-5


def test_an_exact_solution_is_loosened():
    found = loosest_tolerance(lambda tol: 0.0 if tol < 0.1 else 1.0, 1e-6, {1e-3: 0.0})
    assert 1e-3 < found.tol < 0.1


def test_a_guess_that_is_too_tight_is_loosened_before_a_peer_is_given_up():
    asked = []

    def gap_at(tol):
        asked.append(tol)
        return None if tol < 1e-3 else 0.09 * tol * tol

    found = loosest_tolerance(gap_at, 1e-6, {0.1: 1e-3}, most_capped=2)
    assert asked[0] == pytest.approx(1e-4)
    assert found.tol == pytest.approx(10**-2.5)
    assert found.capped is None


def test_a_peer_that_is_ended_again_and_again_is_given_up():
    asked = []

    def gap_at(tol):
        asked.append(tol)
        return None if tol < 1e-5 else tol

    found = loosest_tolerance(gap_at, 1e-6, {1e-3: 1e-3}, most_capped=2)
    assert found.tol is None
    # Of the tolerances that took too long the loosest; all that missed the goal are looser.
    assert found.capped == pytest.approx(10**-5.25)
    assert asked == pytest.approx([1e-6, 10**-4.5, 10**-5.25])

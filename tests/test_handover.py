"""When coordinate descent is left: by counted work, not by the clock."""

import numpy as np
import pytest

import dualgap
from dualgap.handover import Handover
from dualgap.kernels.linear_gram import LinearGram
from dualgap.result import Snapshot


def looks(handover, points):
    zero = np.zeros(2)
    shots = [Snapshot(k, zero, zero, None, off, 0, effort=effort) for k, (effort, off) in enumerate(points)]
    return [handover(shot.violation, shot) for shot in shots]


def test_a_solver_that_falls_quickly_enough_stays():
    assert not any(looks(Handover(1e-6, lambda a: 1.0), [(e, 10.0 ** (-3.0 * e)) for e in np.arange(0.1, 1.9, 0.1)]))


def test_a_solver_that_creeps_is_left_once_it_has_had_as_long_as_the_other_needs():
    decisions = looks(Handover(1e-6, lambda a: 1.0), [(e, 0.1 * 0.99**e) for e in np.arange(0.1, 2.0, 0.1)])
    assert decisions.index(True) == 10  # at an effort of 1.1


def test_one_that_rises_is_left_too_and_one_that_shows_no_gradient_is_not_judged():
    assert looks(Handover(1e-6, lambda a: 0.0), [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)]) == [False, False, True]
    assert not Handover(1e-6, lambda a: 0.0)(0.1, Snapshot(0, np.zeros(1), None, None, 0.1, 0, effort=9.0))


def test_one_without_hope_after_the_first_look_is_left_at_once():
    assert looks(Handover(1e-6, lambda a: 9.0, hopeless=0.5), [(0.1, 0.6), (0.2, 0.6)]) == [True, False]
    assert looks(Handover(1e-6, lambda a: 9.0, hopeless=0.5), [(0.1, 0.4), (0.2, 0.6)]) == [False, False]


def test_where_the_other_is_sure_to_do_well_the_rate_up_to_the_first_look_decides():
    def first(effort, off, expected):
        return looks(Handover(1e-6, lambda a: expected, sure=True), [(effort, off)])[0]

    # From 1 to 0.1 with an effort of 1, and five times as far still to go.
    assert first(1.0, 0.1, 4.9)
    assert not first(1.0, 0.1, 5.1)
    assert not first(1.0, 1e-7, 0.0)  # which is good enough
    assert first(1.0, 1.0, 1e9)
    assert first(1.0, 2.0, 1e9)
    # Later looks go by the usual rule, which begins at the third.
    assert looks(Handover(1e-6, lambda a: 5.1, sure=True), [(1.0, 0.1), (2.0, 0.1)]) == [False, False]


@pytest.mark.parametrize("many", [True, False])
def test_auto_hands_a_hard_linear_problem_over(many):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 1200 if many else 40)) * np.logspace(0, 1 if many else 3, 1200 if many else 40)
    y = np.where(rng.random(600) < 0.5, 1.0, -1.0)
    p = dualgap.build("c_svc", LinearGram(X), y, C=100.0, bias=False)
    first, second = (dualgap.solve(p, gap_tol=1e-6) for _ in range(2))
    assert first.certificate.relative_gap <= 1e-6
    assert first.solver in ("dcd", "dcd+newton")
    assert (first.solver, first.iterations) == (second.solver, second.iterations)
    assert np.array_equal(first.a, second.a)
    if not many:
        assert first.solver == "dcd+newton"

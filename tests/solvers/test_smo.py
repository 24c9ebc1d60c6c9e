"""What is particular to SMO: its variants, its caches, shrinking, and what it counts."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dualgap
from dualgap import Kernel, build, make_gram, solve
from dualgap.solvers import smo

sys.path.insert(0, str(Path(__file__).parents[1]))
from problems import ROWS, data, problem

VARIANTS = (
    {"variant": "second_order"},
    {"variant": "second_order", "shrinking": False},
    {"variant": "keerthi1"},
    {"variant": "keerthi2"},
    {"variant": "keerthi1", "function_cache": "free"},
    {"variant": "keerthi2", "function_cache": "free"},
)


@cache
def optimum(row):
    """The dual optimum by the interior point method, once for all variants."""
    return solve(problem(row), "ipm", gap_tol=1e-10).certificate.dual


@pytest.mark.parametrize("options", VARIANTS, ids=lambda o: "-".join(str(v) for v in o.values()))
@pytest.mark.parametrize("kind", ["full", "small cache", "element"])
@pytest.mark.parametrize("row", ROWS)
def test_variants_and_caches_reach_the_same_optimum(row, kind, options):
    result = solve(problem(row, kind), "smo", tol=1e-6, **options)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(optimum(row), rel=1e-5)
    assert result.certificate.kkt_violation <= 1e-6 * (1 + 1e-8)


@pytest.mark.parametrize("row", [row for row in ROWS if row not in ("one_class", "svdd", "nu_svc", "nu_svr")])
def test_without_bias_single_variables_move(row):
    result = solve(problem(row, bias=False), "smo", tol=1e-8)
    expected = solve(problem(row, bias=False), "ipm", gap_tol=1e-10)
    assert result.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-8)
    assert result.eta.size == 0


def test_keerthi_needs_pairs():
    with pytest.raises(dualgap.UnsupportedProblemError, match="moves pairs only"):
        solve(problem("c_svc", bias=False), "smo", variant="keerthi2")


def test_shrinking_changes_the_work_and_not_the_answer():
    X, y, _ = data(1500, seed=3)
    answers = {}
    for shrinking in (True, False):
        gram = make_gram(X, Kernel("rbf", gamma=0.5), kind="cached", cache_size=1.0)
        answers[shrinking] = solve(build("c_svc", gram, y, C=10.0), "smo", tol=1e-5, shrinking=shrinking)
    assert answers[True].certificate.dual == pytest.approx(answers[False].certificate.dual, rel=1e-7)
    assert answers[True].kernel_evaluations < answers[False].kernel_evaluations


def shrunk(monkeypatch, pieces, callback=None):
    """A run that has to catch up with what it set aside, in pieces of so many multiplications."""
    monkeypatch.setattr(smo, "_PIECE_PRODUCTS", pieces)
    X, y, _ = data(1500, seed=3)
    gram = make_gram(X, Kernel("rbf", gamma=0.5), kind="cached", cache_size=1.0)
    return solve(build("c_svc", gram, y, C=10.0), "smo", tol=1e-5, callback=callback, warn=False)


def test_catching_up_in_pieces_changes_nothing(monkeypatch):
    whole, pieces = shrunk(monkeypatch, 10**12), shrunk(monkeypatch, 50_000)
    assert len(pieces.history) > len(whole.history)
    assert np.isfinite(pieces.history.column("relative_gap")).all()
    assert pieces.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-9)
    assert pieces.kernel_evaluations == whole.kernel_evaluations


def test_a_run_can_be_stopped_while_it_catches_up(monkeypatch):
    seen = [-1]

    def between_two_steps(event):
        seen.append(event.iteration)
        return seen[-1] == seen[-2]

    result = shrunk(monkeypatch, 50_000, between_two_steps)
    assert result.status is dualgap.Status.STOPPED
    assert seen[-1] == seen[-2] == result.iterations
    assert result.certificate.infeasibility < 1e-9
    assert result.certificate.relative_gap < 1e-2


def test_counts_are_those_of_the_run():
    result = solve(problem("c_svc", "small cache"), "smo", tol=1e-5, shrinking=False)
    last = result.history[-1]
    assert result.iterations == last.iteration
    assert last.kernel_evaluations == last.cache_misses * 60  # rows of 60 entries, nothing set aside
    assert last.cache_hits + last.cache_misses == 2 * result.iterations
    assert last.cache_hits > 0
    assert last.n_support == np.count_nonzero(result.a)


def test_a_stored_matrix_counts_the_rows_used():
    stored = solve(problem("c_svc", "full"), "smo", tol=1e-5, shrinking=False)
    cached = solve(problem("c_svc", "cached"), "smo", tol=1e-5, shrinking=False)
    assert stored.kernel_evaluations == cached.kernel_evaluations > 0
    for kind in ("full", "cached"):
        assert solve(problem("c_svc", kind), "ipm", tol=1e-5).kernel_evaluations == 60 * 60


def test_function_cache_of_free_variables_is_counted():
    result = solve(problem("c_svc"), "smo", tol=1e-4, variant="keerthi2", function_cache="free")
    last = result.history[-1]
    assert last.function_misses > 0
    assert last.function_hits > 0
    everything = solve(problem("c_svc"), "smo", tol=1e-4, variant="keerthi2").history[-1]
    assert everything.function_misses == 0


def test_element_cache_saves_evaluations_over_none():
    """With the free variables' gradient alone, single elements are asked for again and again."""
    p = problem("c_svc", "element")
    result = solve(p, "smo", tol=1e-5, variant="keerthi2", function_cache="free")
    last = result.history[-1]
    assert last.cache_hits > last.cache_misses
    assert result.kernel_evaluations == last.cache_misses


def test_history_of_the_second_modification_descends():
    result = solve(problem("c_svc"), "smo", tol=1e-6, variant="keerthi2")
    duals = np.array(result.history.column("dual"))
    assert np.all(np.diff(duals) >= -1e-12)


def test_start_is_used():
    p = problem("eps_svr")
    first = solve(p, "smo", gap_tol=1e-9)
    second = solve(p, "smo", gap_tol=1e-8, start=first.a)
    assert second.iterations < 0.1 * first.iterations


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "platt"}, "variant must be 'second_order', 'keerthi1' or 'keerthi2'"),
        ({"function_cache": "none"}, "function_cache must be 'all' or 'free'; got 'none'"),
        ({"function_cache": "free"}, "needs variant='keerthi1' or 'keerthi2'"),
        ({"variant": "keerthi2", "function_cache": "free", "gap_tol": 1e-3}, "gap_tol needs the full gradient"),
        ({"speed": 9}, "Unknown option 'speed' for solver 'smo'; it takes first_tol"),
        ({"tol": 0.0}, "tol must be a positive number; got 0.0"),
        ({"gap_tol": -1.0}, "gap_tol must be a positive number or None; got -1.0"),
        ({"time_limit": 0}, "time_limit must be a positive number of seconds or None; got 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        solve(problem("c_svc"), "smo", **options)


def test_unknown_solver_is_named():
    with pytest.raises(dualgap.UnknownSolverError, match="Unknown solver 'smoo'; choose 'auto' or one of block, smo"):
        solve(problem("c_svc"), "smoo")


def test_limits_end_a_run_with_a_warning_and_a_valid_certificate():
    with pytest.warns(dualgap.NotCertifiedWarning, match="iteration limit"):
        result = solve(problem("c_svc"), "smo", gap_tol=1e-9, max_iter=5)
    assert result.status is dualgap.Status.MAX_ITER
    assert result.iterations == 5
    assert result.certificate.relative_gap > 1e-9


def test_callback_sees_events_and_stops():
    seen = []

    def callback(event):
        seen.append(event)
        return len(seen) == 2

    result = solve(problem("nu_svr"), "smo", gap_tol=1e-12, callback=callback)
    assert result.status is dualgap.Status.STOPPED
    assert len(seen) == len(result.history) == 2
    assert seen[1].iteration > seen[0].iteration


def test_flat_pairs_run_to_the_bound_that_descends():
    """Two equal points with different labels: chi = 0, and the lecture's slide has the bound the wrong way round."""
    X = np.array([[1.0], [1.0]])
    p = build("c_svc", make_gram(X, Kernel("linear")), np.array([1.0, -1.0]), C=3.0)
    result = solve(p, "smo", gap_tol=1e-12)
    assert result.a == pytest.approx([3.0, 3.0])
    assert result.certificate.primal == pytest.approx(6.0)


def test_options_have_a_description_each():
    for name in smo.Options.__dataclass_fields__:
        assert f"{name} :" in (smo.Options.__doc__ or "")

"""What is particular to chunking: what a chunk holds, what is kept of its matrix, and what it does without one."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap import Kernel, build, make_gram, solve
from dualgap.solvers import chunking
from dualgap.solvers._chunking_matrix import ChunkMatrix

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution
from problems import data, gram, problem


@pytest.mark.parametrize(("variant", "inner"), list(itertools.product(("improved", "paper"), ("smo", "ipm"))))
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "nu_svc", "eps_svr"])
def test_small_chunks_reach_the_optimum_of_clarabel(row, variant, inner):
    p = problem(row, n=60)
    result = solve(p, "chunking", gap_tol=1e-7, variant=variant, inner=inner, add=6)
    *_, optimum, _ = clarabel_solution(p)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-optimum, rel=2e-7)
    assert result.certificate.infeasibility < 1e-13
    assert result.iterations > 2


@pytest.mark.parametrize("variant", ["improved", "paper"])
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "one_class", "nu_svr"])
def test_coupled_constraints_reach_the_optimum_of_clarabel(row, variant):
    p = problem(row, n=60, functions=2)
    assert p.groups is None
    result = solve(p, "chunking", gap_tol=1e-7, variant=variant, add=6)
    *_, optimum, _ = clarabel_solution(p)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-optimum, rel=2e-7)
    assert result.certificate.infeasibility < 1e-13


@given(
    seed=st.integers(0, 10_000),
    add=st.integers(2, 40),
    C=st.sampled_from([0.1, 1.0, 100.0]),
    variant=st.sampled_from(["improved", "paper"]),
    memory=st.sampled_from([0.0, 400.0]),
)
def test_any_number_of_violators_agrees_with_smo(seed, add, C, variant, memory):
    p = problem("c_svc", n=40, seed=seed, C=C)
    one = solve(p, "chunking", gap_tol=1e-6, add=add, variant=variant, memory=memory)
    other = solve(p, "smo", gap_tol=1e-6)
    assert one.certificate.dual == pytest.approx(other.certificate.dual, rel=2e-6)


# -- what a chunk holds ------------------------------------------------------------------------------------------


def chunks_of(p, **options):
    """The chunks of a run, with the point each was chosen at."""
    seen = []
    run = chunking._Run(p, chunking.Options(**options), lambda _: False, np.zeros(p.n), p.f0.copy())
    choose = run.chunk

    def watched(violation):
        before = run.a.copy()
        chunk = choose(violation)
        seen.append((before, chunk, violation))
        return chunk

    run.chunk = watched
    assert run.run().status is dualgap.Status.CONVERGED
    return seen


@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_chunks_hold_the_support_vectors_and_the_worst_violators(variant):
    p = problem("c_svc", n=100)
    seen = chunks_of(p, variant=variant, add=8, tol=1e-4)
    assert len(seen) > 3
    for a, chunk, violation in seen:
        support = np.flatnonzero(a > p.lo)
        assert set(support) <= set(chunk)
        assert set(violation.steepest) <= set(chunk)
        if variant == "paper":  # zeros are dropped: what else is there has been added just now
            assert chunk.size <= support.size + 8 + 2
            assert np.all(violation.violating[np.setdiff1d(chunk, support)])


def test_the_first_chunk_is_random_and_balanced():
    X, y, _ = data(200)
    order = np.argsort(y)
    p = build("c_svc", make_gram(X[order], Kernel("rbf", gamma=0.3)), y[order], C=2.0)
    one, again, other = (chunks_of(p, seed=seed, add=20, tol=0.1)[0][1] for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert 10 <= np.count_nonzero(p.sign[one] > 0) <= 12
    assert one.max() - one.min() > 100


def test_improved_keeps_what_would_be_back():
    p = problem("c_svc", n=150, C=20.0)
    paper = solve(p, "chunking", variant="paper", add=10, tol=1e-4)
    improved = solve(p, "chunking", variant="improved", add=10, tol=1e-4)
    assert paper.certificate.dual == pytest.approx(improved.certificate.dual, rel=1e-5)
    assert improved.iterations < 1.5 * paper.iterations


# -- matrices and memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "cached", "factored", "sparse", "own class"])
def test_the_matrix_of_a_chunk_is_that_of_the_kernel(kind):
    X, *_ = data(30)
    K = gram(kind, X)
    matrix = ChunkMatrix(K)
    for points in ([1, 4, 9, 16, 25], [0, 1, 9, 10, 25, 29], [2, 3], [2, 3, 4, 5]):
        points = np.array(points)
        assert matrix.over(points) == pytest.approx(np.asarray(K.block(points, points), dtype=float), abs=1e-12)


def test_entries_of_two_chunks_are_computed_once():
    X, *_ = data(30)
    K = gram("cached", X)
    matrix = ChunkMatrix(K)
    matrix.over(np.arange(10))
    before = K.evaluations
    matrix.over(np.arange(5, 12))
    assert K.evaluations - before == 2 * 2 + 2 * 5


def test_beyond_its_memory_a_chunk_is_solved_without_a_matrix(monkeypatch):
    p = problem("eps_svr", "cached", n=80)
    stored = solve(p, "chunking", gap_tol=1e-7)
    monkeypatch.setattr(ChunkMatrix, "over", lambda *_: pytest.fail("a matrix was asked for"))
    rows = solve(p, "chunking", gap_tol=1e-7, memory=0.0)
    assert rows.status is dualgap.Status.CONVERGED
    assert rows.certificate.dual == pytest.approx(stored.certificate.dual, rel=1e-7)
    assert rows.history[-1].cache_misses > 0


def test_coupled_constraints_beyond_the_memory_are_an_error_that_says_so():
    with pytest.raises(MemoryError, match=r"needs .* MB for its matrices, and 0 are allowed; raise memory"):
        solve(problem("c_svc", n=200, functions=2), "chunking", memory=0.0)


# -- limits ------------------------------------------------------------------------------------------------------


def test_limits_and_callbacks_leave_a_feasible_point():
    p = problem("nu_svc", n=80)
    stopped = solve(p, "chunking", add=4, tol=1e-8, callback=lambda event: event.iteration >= 2)
    assert stopped.status is dualgap.Status.STOPPED
    assert stopped.certificate.infeasibility < 1e-13
    short = solve(p, "chunking", add=4, tol=1e-8, max_iter=3, warn=False)
    assert short.status is dualgap.Status.MAX_ITER
    assert short.iterations == 3


@pytest.mark.parametrize("memory", [0.0, 400.0])
def test_a_long_inner_program_is_reported_from_within(monkeypatch, memory):
    monkeypatch.setattr(chunking, "_LOOK_UPDATES", 64)
    p = problem("c_svc", "cached", n=60, C=100.0)
    events = []

    def stop_inside(event):
        events.append(event.iteration)
        return events.count(1) > 2

    result = solve(p, "chunking", tol=1e-5, memory=memory, callback=stop_inside)
    assert result.status is dualgap.Status.STOPPED
    assert result.certificate.infeasibility < 1e-13


def test_start_is_used():
    p = problem("c_svc", n=80)
    solved = solve(p, "chunking", gap_tol=1e-8)
    again = solve(p, "chunking", gap_tol=1e-6, start=solved.a)
    assert again.iterations <= 1


def test_float32_rows_are_no_limit_to_the_gap():
    p = problem("c_svc", "float32", n=150, C=100.0)
    for memory in (0.0, 400.0):
        result = solve(p, "chunking", gap_tol=1e-9, memory=memory, add=20)
        assert result.status is dualgap.Status.CONVERGED
        assert result.certificate.relative_gap <= 1e-9


def test_what_it_refuses():
    p = problem("c_svc", functions=2)
    with pytest.raises(dualgap.UnsupportedProblemError, match="inner='ipm' takes them"):
        solve(p, "chunking", inner="smo")
    X, y, _ = data(60)
    sigmoid = build("c_svc", make_gram(X, Kernel("sigmoid", gamma=0.5, coef0=-1.0)), y)
    assert "indefinite" in chunking.supports(sigmoid, chunking.Options(inner="ipm"))
    assert solve(sigmoid, "chunking", tol=1e-3).status is dualgap.Status.CONVERGED
    for wrong in ({"variant": "fast"}, {"inner": "qp"}, {"add": 1}, {"memory": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            solve(problem("c_svc"), "chunking", **wrong)


def test_real_data_agree_with_libsvm(data_folder):
    from sklearn.svm import SVC

    from dualgap.datasets import load

    dataset = load(Path(data_folder) / "ratsch-diabetis.svm.xz")
    X = np.asarray(dataset.X.todense() if hasattr(dataset.X, "todense") else dataset.X)
    y = np.where(dataset.y > 0, 1.0, -1.0)
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=1 / 20)), y, C=100.0)
    result = solve(p, "chunking", gap_tol=1e-6)
    peer = SVC(C=100.0, gamma=1 / 20, tol=1e-6).fit(X, y)
    a = np.zeros(y.size)
    a[peer.support_] = np.abs(peer.dual_coef_[0])
    assert result.certificate.dual == pytest.approx(dualgap.certify(p, a)[0].dual, rel=2e-6)

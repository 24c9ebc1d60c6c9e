"""Blocks solved side by side: slices that have little to do with one another, and what they do together."""

from itertools import pairwise

import numpy as np
import pytest

from dualgap import Kernel, Status, build, make_gram, solve
from dualgap.certificate import certify
from dualgap.kernels import fused
from dualgap.solvers import _block_side_by_side, _block_slices, block
from dualgap.solvers._block_layout import Local
from dualgap.solvers._block_parts import Moves

pytestmark = pytest.mark.skipif(not fused.AVAILABLE, reason="rows on demand need the registers of tiles")

N, SIZE = 1500, 256


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few hundred count as large."""
    monkeypatch.setattr(_block_side_by_side, "_LEAST_SIZE", 128)


@pytest.fixture
def seen(monkeypatch):
    """The runs, and every time that parts were solved side by side: how many, and the objective before and after."""
    runs, times = [], []
    start = block._Run.__init__

    class Recorded(_block_side_by_side.SideBySide):
        def solve(self, active, chosen, count, *arguments):
            run = runs[-1]
            moves = super().solve(active, chosen, count, *arguments)
            assert np.all(np.diff(moves.places) > 0)
            for group in range(run.n_groups):
                assert abs(moves.delta[run.group[active[moves.places]] == group].sum()) < 1e-9
            times.append((count, run.objective))
            return moves

    def begun(run, *arguments):
        runs.append(run)
        start(run, *arguments)

    monkeypatch.setattr(block, "SideBySide", Recorded)
    monkeypatch.setattr(block._Run, "__init__", begun)
    return runs, times


def points(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), rng


def many_free(row="c_svc", *, gamma=0.5, threads=2, budget=200.0, **parameters):
    """A problem most of whose variables end between their bounds."""
    X, rng = points()
    gram = make_gram(X, Kernel("rbf", gamma=gamma), kind="cached", n_jobs=threads, cache_size=budget)
    if row in ("c_svc", "nu_svc", "squared_hinge"):
        y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=N) > 0.0, 1.0, -1.0)
    else:
        y = None if row in ("one_class", "svdd") else np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=N)
    return build(row, gram, y, **parameters)


PROBLEMS = {
    "c_svc": {"C": 100.0},
    "squared_hinge": {"C": 10.0},
    "nu_svc": {"nu": 0.15, "gamma": 2.0},
    "eps_svr": {"C": 100.0, "epsilon": 0.05},
    "nu_svr": {"C": 100.0, "nu": 0.6},
}


@pytest.mark.parametrize("row", PROBLEMS)
def test_the_optimum_is_the_one_without_parts(row, seen, monkeypatch):
    problem = many_free(row, **PROBLEMS[row])
    ours = solve(problem, "block", tol=1e-5, block_size=SIZE)
    _, times = seen
    assert times
    monkeypatch.setattr(_block_side_by_side, "_MOST", 1)
    count = len(times)
    other = solve(problem, "block", tol=1e-5, block_size=SIZE)
    assert len(times) == count
    for result in (ours, other):
        assert result.status is Status.CONVERGED
        assert result.certificate.kkt_violation <= 1e-5
    assert ours.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-7)


@pytest.mark.parametrize(("free", "count"), [(0, 1), (200, 1), (232, 1), (233, 2), (465, 2), (466, 3), (1500, 7)])
def test_as_many_parts_as_hold_the_free_variables(free, count, seen):
    """And a tenth more, in blocks of 256."""
    solve(many_free(C=100.0), "block", tol=1.0, block_size=SIZE)
    u = np.where(np.arange(N) < free, 0.5, 1.0)
    side_by_side, nothing = seen[0][0].side_by_side, np.zeros(N)
    side_by_side.most = 8
    assert side_by_side.count(Local(nothing, u, nothing, np.ones(N), nothing.astype(np.int64))) == count
    side_by_side.most = 2
    assert side_by_side.count(Local(nothing, u, nothing, np.ones(N), nothing.astype(np.int64))) == min(count, 2)


def test_where_none_of_them_moves_a_single_block_is_next(seen, monkeypatch):
    """Violators of each part may all be on one side, so that it has no pair."""
    nothing = np.empty(0, dtype=np.intp)
    tried = []

    def none_moves(_parts, *_arguments):
        tried.append(len(seen[1]))
        return Moves(nothing, np.empty(0), 0, 0)

    monkeypatch.setattr(_block_side_by_side.Parts, "solve", none_moves)
    result = solve(many_free(C=100.0), "block", tol=1e-4, block_size=SIZE)
    assert tried
    assert result.status is Status.CONVERGED
    assert result.certificate.kkt_violation <= 1e-4


def test_every_entry_is_counted():
    """That of slices and of rows on demand, whatever the threads."""
    problems = [many_free(C=100.0, threads=threads) for threads in (1, 2, 3)]
    assert len({solve(problem, "block", tol=1e-3, block_size=SIZE).kernel_evaluations for problem in problems}) == 1


def test_the_objective_falls_every_time(seen):
    solve(many_free(C=100.0), "block", tol=1e-3, block_size=SIZE)
    _, times = seen
    objectives = [objective for _, objective in times]
    assert len(objectives) > 3
    assert np.all(np.diff(objectives) < 0.0)


def test_the_way_is_the_same_for_any_number_of_threads(seen):
    found = []
    for threads in (1, 2, 3, 2):
        result = solve(many_free(C=100.0, threads=threads), "block", tol=1e-3, block_size=SIZE)
        found.append((result.iterations, result.a))
    for iterations, a in found[1:]:
        assert iterations == found[0][0]
        assert np.array_equal(a, found[0][1])


def test_a_run_whose_parts_work_against_one_another_converges(seen, monkeypatch):
    """Cut at random, with a kernel so wide that every variable has to do with every other."""
    rng = np.random.default_rng(5)

    def at_random(_slices, variables, count):
        return [np.sort(part) for part in np.array_split(rng.permutation(variables.size), count)]

    monkeypatch.setattr(_block_side_by_side.Slices, "cut", at_random)
    result = solve(many_free("squared_hinge", gamma=0.01, C=1e4), "block", tol=1e-3, block_size=SIZE)
    runs, times = seen
    counts = [parts for parts, _ in times]
    assert max(counts) > 2
    assert min(run.side_by_side.most for run in runs) < max(counts)
    assert result.status is Status.CONVERGED
    assert result.certificate.kkt_violation <= 1e-3


@pytest.mark.parametrize(
    ("count", "down", "most"),
    [(8, -1.0, 8), (8, -0.65, 4), (5, -0.4, 3), (3, -0.1, 2), (2, -0.65, 8), (2, -0.4, 1), (1, -0.1, 8), (4, 0.0, 2)],
)
def test_half_as_many_where_they_work_against_one_another(count, down, most, seen):
    """The objective along their way is ``down t + t^2 / 2``."""
    solve(many_free(C=100.0), "block", tol=1.0, block_size=SIZE)
    side_by_side = seen[0][0].side_by_side
    side_by_side.most = 8
    side_by_side.learn(count, down, 1.0)
    assert side_by_side.most == most


@pytest.mark.parametrize("settings", [{"max_iter": 100_000}, {"block_size": 100}, {"block_size": 2048}])
def test_they_are_left_alone(settings, seen):
    """Where steps are counted, blocks are small, or one block holds everything."""
    solve(many_free(C=100.0), "block", tol=1e-2, **{"block_size": SIZE, **settings})
    assert not seen[1]


def test_memory_for_rows_stays_within_the_budget(seen):
    """With room for the rows of one part, parts are solved one after the other."""
    loose = solve(many_free(C=100.0), "block", tol=1e-3, block_size=SIZE)
    tight = solve(many_free(C=100.0, budget=3.0), "block", tol=1e-3, block_size=SIZE)  # half of it is divided
    least = solve(many_free(C=100.0, budget=1.0), "block", tol=1e-3, block_size=SIZE)
    wide, narrow, narrowest = (sum(room.nbytes for room in run.rooms.values()) for run in seen[0])
    assert narrow < 0.7e6  # 256 variables and what fills strides up; wide ones have twice that
    assert wide == 2 * narrow
    assert narrowest < 0.3e6  # 128 variables, the least there is
    assert least.certificate.dual == pytest.approx(loose.certificate.dual, rel=1e-5)
    assert tight.certificate.dual == pytest.approx(loose.certificate.dual, rel=1e-5)


def test_a_run_can_be_stopped_between_parts(seen):
    problem = many_free(C=100.0)
    _, times = seen
    outcome = block.solve(problem, block.Options(tol=1e-6, block_size=SIZE), lambda snapshot: len(times) >= 2)
    assert outcome.status is Status.STOPPED
    assert certify(problem, outcome.a)[0].infeasibility <= 1e-12


# -- slices --------------------------------------------------------------------------------------------------------


def slices_of(X, gamma=0.5):
    entries = block.Entries(make_gram(X, Kernel("rbf", gamma=gamma), kind="cached"), "single", keep=False)
    everything = np.arange(len(X))
    return _block_slices.Slices(entries, everything, everything, len(X), 0)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_slices_hold_every_variable_once_and_are_of_one_size(count):
    X, rng = points()
    variables = np.sort(rng.choice(N, 1001, replace=False))
    parts = slices_of(X).cut(variables, count)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1001))
    assert {part.size for part in parts} <= {1001 // count, 1001 // count + 1}
    assert all(np.all(np.diff(part) > 0) for part in parts)


def test_slices_lie_along_a_line():
    """Those of points on a line are intervals, whichever two of the sample a cut is between."""
    X = np.random.default_rng(0).permutation(np.linspace(-2.0, 2.0, 600))[:, None]
    slices = slices_of(X)
    for _ in range(_block_slices._LINES):
        ends = sorted((X[part].min(), X[part].max()) for part in slices.cut(np.arange(600), 4))
        assert all(last < first for (_, last), (first, _) in pairwise(ends))


def test_cuts_are_across_different_lines():
    X, _ = points()
    slices = slices_of(X)
    sides = []
    for _ in range(_block_slices._LINES):
        side = np.zeros(N)
        side[slices.cut(np.arange(N), 2)[1]] = 1.0
        sides.append(side)
    alike = np.abs(np.corrcoef(sides)[np.triu_indices(len(sides), 1)])
    assert alike.min() < 0.3
    assert np.median(alike) < 0.9


def test_points_that_are_all_the_same_or_infinitely_far_apart():
    """Entries of 1, and of 0: parts are of one size all the same."""
    for X, gamma in ((np.ones((300, 2)), 1.0), (points(300)[0], 1e6)):
        parts = slices_of(X, gamma).cut(np.arange(300), 3)
        assert [part.size for part in parts] == [100, 100, 100]

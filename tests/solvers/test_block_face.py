"""Free variables moved together: against dense linear algebra, and what that does to whole runs of the block solver."""

from __future__ import annotations

import numpy as np
import pytest

from dualgap import Kernel, Status, build, make_gram, run, solve
from dualgap.solvers import _block_pairs, _block_rounding, _block_together, block
from dualgap.solvers._block_face import face_end, make_face

TIGHT = 1e-12


def _matrix(n: int, dtype: type, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, 3))
    squares = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    return np.ascontiguousarray(np.exp(-squares), dtype=dtype)


def _reference(H: np.ndarray, slope: np.ndarray, C: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The step of least ``d'Hd/2 + slope'd`` with ``C'd = wanted``."""
    k = C.shape[1]
    system = np.block([[H.astype(np.float64), C], [C.T, np.zeros((k, k))]])
    return np.linalg.solve(system, np.concatenate([-slope, wanted]))[: len(slope)]


@pytest.mark.parametrize(("dtype", "left"), [(np.float32, 1e-3), (np.float64, 1e-11)])
@pytest.mark.parametrize("groups", [0, 1, 2])
def test_the_least_point_of_a_face(dtype, left, groups):
    """Judged by the slopes there, which a matrix of condition 1e5 in float32 leaves at 1e-3 of what they were."""
    n, rng = 120, np.random.default_rng(1)
    H, slope = _matrix(n, dtype), rng.normal(size=n)
    group = np.arange(n) % groups if groups else np.full(n, -1)
    sums = (group[:, None] == np.arange(groups)).astype(float)
    expected = _reference(H, slope, sums, np.zeros(groups))
    face = make_face(np.arange(n), H.copy())
    wide = np.full(n, 10.0 * np.abs(expected).max())
    end = face_end(face, slope, np.zeros(n), -wide, wide, group, TIGHT)
    after = slope + H.astype(np.float64) @ end
    if groups:
        after -= sums @ (sums.T @ after / sums.sum(axis=0))
    assert np.abs(after).max() <= left * np.abs(slope).max()
    assert np.abs(sums.T @ end).max(initial=0.0) <= 1e-12 * np.abs(end).sum()


def test_bounds_on_the_way_are_met_exactly():
    n, rng = 150, np.random.default_rng(2)
    H, slope = _matrix(n, np.float64), 0.1 * rng.normal(size=n)
    group, sums = np.zeros(n, dtype=np.int64), np.ones((n, 1))
    free = _reference(H, slope, sums, np.zeros(1))
    hi = np.full(n, np.sort(np.abs(free))[-6])
    end = face_end(make_face(np.arange(n), H.copy()), slope, np.zeros(n), -hi, hi, group, TIGHT)
    stopped = (end == hi) | (end == -hi)
    assert 1 <= stopped.sum() < n // 2
    assert np.all(np.abs(end) <= hi)
    assert abs(end.sum()) <= 1e-12 * np.abs(end).sum()
    # Among those that move nothing is left to gain.
    units = np.eye(n)[:, stopped]
    expected = _reference(H, slope, np.column_stack([sums, units]), np.concatenate([[0.0], end[stopped]]))
    assert end == pytest.approx(expected, abs=1e-7)


def test_a_sum_that_bounds_do_not_let_keep():
    slope = np.array([-1.0, -1.0, -1.0, 1.0])
    face = make_face(np.arange(4), np.eye(4))
    hi = np.full(4, 1e-3)
    end = face_end(face, slope, np.zeros(4), np.array([-1e-3, -1e-3, -1e-3, -1e-4]), hi, np.zeros(4, int), TIGHT)
    assert end is None or abs(end.sum()) <= 1e-15


def test_variables_at_bounds_stay_there():
    n = 60
    H, slope = _matrix(n, np.float64), np.random.default_rng(3).normal(size=n)
    u = np.zeros(n)
    u[:5] = 7.0
    lo, hi = np.full(n, -1e6), np.full(n, 1e6)
    hi[:5] = 7.0
    end = face_end(make_face(np.arange(n), H.copy()), slope, u, lo, hi, np.zeros(n, dtype=np.int64), TIGHT)
    assert np.all(end[:5] == 7.0)
    assert not np.any(end[5:] == 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_grown_face_is_the_face_of_all(dtype):
    n, rng = 90, np.random.default_rng(4)
    H, right = _matrix(n, dtype), rng.normal(size=n)
    whole = make_face(np.arange(n), H.copy())
    face = make_face(np.arange(70), H[:70, :70].copy())
    for begin, end in ((70, 75), (75, 90)):
        new = np.arange(begin, end)
        assert face.missing(np.arange(end)).tolist() == new.tolist()
        face = face.grown(new, H[:begin, begin:end], H[begin:end, begin:end])
    assert face.variables.tolist() == list(range(n))
    assert face.product(right) == pytest.approx(H.astype(float) @ right, abs=1e-4)
    rounding = 2e-2 if dtype == np.float32 else 1e-8
    expected = whole.solve(right)
    assert face.solve(right) == pytest.approx(expected, abs=rounding * np.abs(expected).max())


def test_a_matrix_that_is_indefinite_by_rounding_gets_a_larger_shift():
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    H = (basis * np.append(np.linspace(0.1, 1.0, 39), -8e-6)) @ basis.T
    H = (0.5 * (H + H.T)).astype(np.float32)
    face = make_face(np.arange(40), H.copy())
    assert face is not None
    assert face.shift > 8e-6
    right = rng.normal(size=40)
    assert face.product(right) == pytest.approx(H.astype(float) @ right, abs=1e-5)
    shifted = H.astype(float) + face.shift * np.eye(40)
    assert shifted @ face.solve(right) == pytest.approx(right, abs=0.05 * np.abs(right).max())


def test_an_indefinite_matrix_has_no_face():
    assert make_face(np.arange(2), np.array([[1.0, 2.0], [2.0, 1.0]])) is None


def _noisy(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def _problem(row: str, n: int, C: float):
    X, y = _noisy(n)
    target = y if row == "c_svc" else np.sin(X[:, 0]) + 0.1 * y
    return build(row, make_gram(X, Kernel("rbf", gamma=0.5)), target, C=C, epsilon=0.02)


@pytest.mark.parametrize(("row", "n", "C"), [("c_svc", 2600, 100.0), ("eps_svr", 1500, 3.0)])
def test_faces_replace_pair_steps_near_the_solution(row, n, C, monkeypatch):
    p = _problem(row, n, C)
    # Plain pair steps are what faces are compared with: leaps (`_block_leap`) are another way to save them.
    monkeypatch.setattr(block, "leaping_steps", _block_pairs.steps)
    together = solve(p, "block", gap_tol=1e-7)
    monkeypatch.setattr(_block_together, "_MOST", 0)
    alone = solve(p, "block", gap_tol=1e-7)
    assert together.status is alone.status is Status.CONVERGED
    assert together.certificate.dual == pytest.approx(alone.certificate.dual, rel=2e-7)
    assert together.certificate.infeasibility <= 1e-12
    assert together.iterations < 0.7 * alone.iterations


def test_many_free_variables_move_together_only_once_pair_steps_have_cost_as_much(monkeypatch):
    p = _problem("c_svc", 2600, 100.0)
    monkeypatch.setattr(block, "leaping_steps", _block_pairs.steps)
    expected = solve(p, "block", gap_tol=1e-7)
    monkeypatch.setattr(_block_together, "_CHEAP", 0)  # all counts are large ones
    spent = solve(p, "block", gap_tol=1e-7)
    # A factor that nobody is ready to pay for.
    monkeypatch.setattr(_block_together, "face_cost", lambda *args, **more: np.inf)
    never = solve(p, "block", gap_tol=1e-7)
    assert expected.status is spent.status is never.status is Status.CONVERGED
    assert spent.certificate.dual == pytest.approx(expected.certificate.dual, rel=2e-7)
    assert expected.iterations < spent.iterations < never.iterations


def test_late_faces_are_due_until_they_are_taken_or_the_free_variables_change():
    together = _block_together.Together(10, 1, 10, 1.0)
    together.begin(1.0)
    together.paired = 5.0
    assert together.pairs_ahead(0.99, 0.1) == 5.0  # too early to tell what a digit costs
    together.overdue()
    assert together.pairs_ahead(0.99, 0.1) == np.inf
    together.begin(0.99)
    assert together.pairs_ahead(0.99, 0.1) == 0.0


def test_slopes_are_refreshed_before_they_are_rounding(monkeypatch):
    """What float32 entries add up to is found out by the solver, not by one certificate after another."""
    p = _problem("c_svc", 2600, 1000.0)
    certified = []
    certify = run.certify
    monkeypatch.setattr(run, "certify", lambda *args: certified.append(0) or certify(*args))
    result = solve(p, "block", gap_tol=1e-8)
    assert result.status is Status.CONVERGED
    count = len(certified)
    monkeypatch.setattr(_block_rounding.Rounding, "noise", lambda *arguments: 0.0)
    assert solve(p, "block", gap_tol=1e-8).status is Status.CONVERGED
    assert count == 1 < len(certified) - count


def test_rounding_is_in_the_way_where_exact_looks_show_the_same_violation():
    p = _problem("c_svc", 300, 1.0)
    ones = np.ones(p.n)
    rounding = _block_rounding.Rounding(p, ones, ones, single=True)

    def looks(violations):
        told = []
        for violation in violations:
            rounding.refresh(np.arange(3), np.zeros(p.n), np.zeros(p.n))
            told.append(rounding.in_the_way(violation))
            assert not rounding.in_the_way(0.0)  # slopes that have moved on say nothing
        return told

    assert looks([8.0, 3.0, 1.0, 0.9, 0.8, 0.3]) == [False] * 6
    assert looks([0.3, 0.29, 0.2]) == [False, False, True]


def test_rounding_may_feign_where_variables_are_large_beside_the_objective():
    p = _problem("c_svc", 300, 1.0)
    ones = np.ones(p.n)
    rounding = _block_rounding.Rounding(p, ones, ones, single=True)
    u = np.full(p.n, 2.0)
    # 300 squares of 4, whose eigenvalues rounding turns by 1.2e-7 times the root of 300.
    energy = 0.5 * 1.2e-7 * np.sqrt(300.0) * 1200.0
    bound = energy / 0.02
    assert rounding.feigns(u, -0.99 * bound, 0.99 * bound)
    assert not rounding.feigns(u, -1.01 * bound, 0.5 * bound)
    assert not rounding.feigns(u, -0.5 * bound, 1.01 * bound)
    assert not rounding.feigns(0.0 * u, 0.0, 0.0)
    assert not _block_rounding.Rounding(p, ones, ones, single=False).feigns(1e9 * u, 1e-9, 1e-9)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("megabytes", [4.0, 27.0])
def test_free_variables_that_move_together_take_an_eighth_of_what_is_divided(monkeypatch, megabytes, precision):
    """Beside blocks, which may take half of it, and packed columns."""
    made, use = [], block._Run.use

    def noted(run, *args):
        use(run, *args)
        made.append(8 * run.together.most**2 * run.dtype.itemsize)

    monkeypatch.setattr(block._Run, "use", noted)
    X = np.random.default_rng(0).normal(size=(3000, 4))
    gram = make_gram(X, Kernel("rbf", gamma=0.5), kind="cached", cache_size=megabytes)
    solve(build("c_svc", gram, np.where(X[:, 0] > 0, 1, -1)), "block", precision=precision)
    assert made
    assert 0.9 * gram.divisible < max(made) <= gram.divisible <= 1e6 * megabytes


def test_regression_with_a_large_c_is_left_to_float64_entries_soon(monkeypatch):
    """Steps would follow what rounding makes of the matrix, as far as the box lets them: millions of them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 4))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=600)
    gram = make_gram(X, Kernel("rbf", gamma=0.05))
    kinds, sharpen = [], block._Run.sharpen
    monkeypatch.setattr(block._Run, "sharpen", lambda self: (sharpen(self), kinds.append(self.dtype)))
    plain = solve(build("eps_svr", gram, y, C=1.0, epsilon=0.1), "block", gap_tol=1e-6)
    assert plain.status is Status.CONVERGED
    assert not kinds
    result = solve(build("eps_svr", gram, y, C=1e4, epsilon=0.1), "block", gap_tol=1e-6)
    assert set(kinds) == {np.dtype(np.float64)}
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-6


def test_float64_entries_from_the_middle_of_a_run_on(monkeypatch):
    """Where rounding is in the way: same solution, all entries counted, and the rest by float64 ones."""
    p = _problem("c_svc", 6000, 10.0)
    plain = solve(p, "block", gap_tol=1e-8)
    asked, kinds, sharpen = [], [], block._Run.sharpen
    monkeypatch.setattr(
        _block_rounding.Rounding, "in_the_way", lambda self, _: self.exact is not None and len(asked) == 3
    )
    tell = block._Run.tell
    monkeypatch.setattr(block._Run, "tell", lambda self, *args, **more: asked.append(0) or tell(self, *args, **more))
    monkeypatch.setattr(block._Run, "sharpen", lambda self: (sharpen(self), kinds.append(self.dtype)))
    result = solve(p, "block", gap_tol=1e-8)
    assert kinds == [np.float64]
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-8
    assert result.certificate.dual == pytest.approx(plain.certificate.dual, rel=2e-8)
    made = [event.kernel_evaluations for event in result.history.events]
    assert made == sorted(made)
    assert made[0] < made[-1]


def test_variables_left_behind_are_certified_like_all_others(monkeypatch):
    p = _problem("c_svc", 6000, 1.0)
    left = []
    choose = block._Run.choose_active

    def counted(self, *args):
        active = choose(self, *args)
        left.append(int(self.aside.sum()))
        assert not np.any(self.aside[active])
        return active

    monkeypatch.setattr(block._Run, "choose_active", counted)
    result = solve(p, "block", tol=1e-4)
    assert result.status is Status.CONVERGED
    assert result.certificate.kkt_violation <= 1e-4 * (1.0 + 1e-9)
    assert max(left) > 1000
    again = solve(p, "block", tol=1e-4)
    assert np.array_equal(result.a, again.a)

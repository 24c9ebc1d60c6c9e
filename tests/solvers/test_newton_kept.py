"""What `newton` keeps from step to step (matrix, slopes, answers, their sum over the rows) against making it anew."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from dualgap import build, solve
from dualgap.kernels.factor import Factor
from dualgap.kernels.linear_gram import LinearGram
from dualgap.solvers import _newton_even as evenly
from dualgap.solvers import _newton_smooth as smooth
from dualgap.solvers import _newton_steps, newton
from dualgap.solvers._newton_kept import KeptCross
from dualgap.solvers._newton_system import cost_of_features, least_cost, weighted_cross
from dualgap.solvers._newton_terms import advance, along, changes, settle


def squared_hinge(n, d=7, *, sparse=False, weighted=False, bias=False, constant=0.0, C=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.7, rng.normal(size=(n, d)), 0.0)
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    weight = rng.random(n) + 0.2 if weighted else None
    gram = LinearGram(sp.csr_matrix(X) if sparse else X, constant)
    return build("squared_hinge", gram, y, C=C, bias=bias, sample_weight=weight)


def random_answers(problem, rng):
    """Answers of which about a third are not clipped."""
    return np.where(rng.random(problem.n) < 0.3, 1.0, -1.0)


class CountedFactor(Factor):
    """A factor that remembers how many rows each of its cross products has read."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.read = []

    def cross(self, rows, weights=None):
        self.read.append(len(rows))
        return super().cross(rows, weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("sparse", "bias"), [(False, False), (True, True)])
def test_kept_matrix_is_that_of_the_free_variables(sparse, bias, weighted):
    p = squared_hinge(2000, sparse=sparse, bias=bias, constant=0.0 if bias else 0.5)
    rng = np.random.default_rng(1)
    factor = CountedFactor(p.gram.factor, p.gram.constant**0.5)
    kept = KeptCross(factor, p, 1)
    weights = rng.random(p.n) if weighted else None
    raw = random_answers(p, rng)
    for turn in range(12):
        moved = rng.permutation(p.n)[: 1500 if turn == 6 else 40]
        raw[moved] = random_answers(p, rng)[moved]
        factor.read.clear()
        terms = kept.compare(raw)
        G = kept.matrix(weights, 1.0)
        J = np.flatnonzero(raw > 0.0)
        expected = weighted_cross(factor, p.index[J], p.sign[J], p.F[J], None if weights is None else weights[J])
        assert kept.free == J.size
        assert np.allclose(G, expected, rtol=1e-12, atol=1e-10)
        # All of them at first and where most have changed, and only what has changed elsewhere.
        read = sum(factor.read[:-1])  # the last one is the comparison's
        assert read == terms
        assert read == J.size if turn in (0, 6) else read <= 40
    kept.forget()
    assert kept.bend(np.ones(factor.d), 1.0) is None
    assert kept.compare(raw) == J.size
    assert np.array_equal(kept.matrix(weights, 1.0), expected)
    g = rng.normal(size=factor.d)
    assert kept.bend(g, 3.0) == pytest.approx(3.0 * g @ expected[: factor.d, : factor.d] @ g)


def test_rounding_beside_the_identity_is_thrown_away():
    p = squared_hinge(600)
    rng = np.random.default_rng(2)
    factor = Factor(p.gram.factor)
    kept = KeptCross(factor, p, 1)
    raw = random_answers(p, rng)
    kept.compare(raw)
    kept.matrix(None, 1.0)
    kept.G += 1e-3  # stands for what rounding has left
    raw[:5] = -raw[:5]
    kept.compare(raw)
    J = np.flatnonzero(raw > 0.0)
    expected = factor.cross(p.index[J])
    assert not np.allclose(kept.matrix(None, 1.0), expected, atol=1e-4)
    kept.compare(raw)
    assert np.array_equal(kept.matrix(None, 1e10), expected)


def test_changes_by_parts():
    rng = np.random.default_rng(3)
    n = 1000
    raw, lo, hi = rng.normal(size=n), np.full(n, -0.5), np.full(n, 0.5)
    inside = rng.random(n) < 0.5
    entering, leaving, counts = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp), np.zeros(3, dtype=np.int64)
    changes(raw, lo, hi, inside, 300, n, entering, leaving, counts)
    now = np.abs(raw) < 0.5
    part = np.arange(n) >= 300
    assert np.array_equal(entering[300 : 300 + counts[0]], np.flatnonzero(part & now & ~inside))
    assert np.array_equal(leaving[300 : 300 + counts[1]], np.flatnonzero(part & ~now & inside))
    assert counts[2] == (part & now).sum()


@pytest.mark.parametrize("begin", [0, 700])
def test_one_pass_goes_along_the_direction(begin):
    rng = np.random.default_rng(4)
    n = 1500  # three blocks, the last of them not full
    lo, hi = np.zeros(n), np.where(rng.random(n) < 0.5, np.inf, 1.0)
    ridge = np.where(np.isfinite(hi), 0.0, 0.5)
    give = 1.0 / (ridge + 0.3 * (ridge == 0.0))
    raw, s, move = 2.0 * rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)
    t = np.clip(raw, lo, hi)
    after, slopes = raw - 0.7 * give * move, s + 0.7 * move
    expected, before, sums, answers = np.clip(after, lo, hi), t.copy(), np.zeros(3), np.empty(n)
    settle(after, slopes, lo, hi, ridge, begin, n, answers, sums)
    turned, rest, found = np.empty(n, dtype=np.intp), np.empty(n), np.zeros(3)
    count = advance(raw, s, t, give, move, 0.7, lo, hi, ridge, begin, n, turned, rest, found)
    assert np.allclose(raw[begin:], after[begin:], rtol=1e-14, atol=1e-14)
    assert np.allclose(s[begin:], slopes[begin:], rtol=1e-14, atol=1e-14)
    assert np.allclose(t[begin:], expected[begin:], rtol=1e-14, atol=1e-14)
    assert np.allclose(found, sums, rtol=1e-12)
    assert np.array_equal(turned[begin:count], begin + np.flatnonzero((t != before)[begin:]))
    assert np.array_equal(rest[begin:count], (t - before)[turned[begin:count]])


@pytest.mark.parametrize("begin", [0, 700])
def test_passes_over_one_box_are_those_over_any(begin):
    rng = np.random.default_rng(8)
    n, top, give, length = 1500, 1.3, 0.8, 0.7
    lo, hi, ridge = np.zeros(n), np.full(n, top), np.zeros(n)
    raw, s, move = 2.0 * rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)
    t, other, sums, found = np.empty(n), np.empty(n), np.zeros(3), np.zeros(3)
    settle(raw, s, lo, hi, ridge, begin, n, t, sums)
    evenly.settle(raw, s, top, begin, n, other, found)
    assert np.array_equal(t[begin:], other[begin:])
    assert np.allclose(found, sums, rtol=1e-12)
    best = np.where(s < 0.0, top, 0.0)
    evenly.settle(best, s, top, begin, n, other, found)
    assert found[0] == 0.0  # what is best lacks nothing, and not by rounding
    along(raw, np.full(n, give), move, length, lo, hi, begin, n, sums)
    evenly.along(raw, give, move, length, top, begin, n, found)
    assert np.allclose(found[:2], sums[:2], rtol=1e-12)
    turned, rest = np.empty((2, n), dtype=np.intp), np.empty((2, n))
    one, two = [raw.copy(), s.copy(), t.copy()], [raw.copy(), s.copy(), t.copy()]
    count = advance(*one, np.full(n, give), move, length, lo, hi, ridge, begin, n, turned[0], rest[0], sums)
    assert evenly.advance(*two, give, move, length, top, begin, n, turned[1], rest[1], found) == count
    assert np.allclose([v[begin:] for v in one], [v[begin:] for v in two], rtol=1e-13, atol=1e-13)
    assert np.array_equal(turned[0, begin:count], turned[1, begin:count])
    assert np.allclose(rest[0, begin:count], rest[1, begin:count], rtol=1e-12, atol=1e-13)
    assert np.allclose(found, sums, rtol=1e-12)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("begin", [0, 700])
def test_passes_over_smooth_losses(begin, even):
    rng = np.random.default_rng(6)
    n, length = 1500, 0.7
    one = np.ones(n) if even else rng.random(n) + 0.5
    lo, hi, ridge = 0.1 * one, 2.0 * one, 0.5 * one
    box = (lo[:1], hi[:1], ridge[:1]) if even else (lo, hi, ridge)
    s, move, part = rng.normal(size=n) - 0.3, rng.normal(size=n), slice(begin, n)

    def minima(slopes):
        t = np.clip(-slopes / ridge, lo, hi)
        return t, float((0.5 * ridge * t**2 + slopes * t)[part].sum())

    t, (before, value) = np.empty(n), minima(s)
    assert smooth.answer(s, *box, begin, n, t) == pytest.approx(value, rel=1e-12)
    assert np.allclose(t[part], before[part], rtol=1e-14)
    (after, end), (there, _) = minima(s + length * move), minima(s + (length + 1e-6) * move)
    sums = np.zeros(2)
    smooth.along(s, move, length, *box, begin, n, sums)
    assert sums[0] == pytest.approx(-(after * move)[part].sum(), rel=1e-12)
    assert sums[1] == pytest.approx(-((there - after) * move)[part].sum() / 1e-6, rel=1e-3)

    free = (before > lo) & (before < hi)
    inside = free & (rng.random(n) < 0.9)  # some that are free have not been counted as such
    expected = np.where(inside, before - length * move / ridge, before)
    t, slopes = before.copy(), s.copy()
    turned, rest, least = np.empty(n, dtype=np.intp), np.empty(n), np.zeros(1)
    count = smooth.advance(slopes, t, inside, move, length, *box, begin, n, turned, rest, least)
    assert least[0] == pytest.approx(end, rel=1e-12)
    assert np.allclose(slopes[part], (s + length * move)[part], rtol=1e-13, atol=1e-13)
    assert np.allclose(t[part], after[part], rtol=1e-13)
    found = np.zeros(n)
    found[turned[begin:count]] = rest[begin:count]
    assert np.allclose(found[part], (after - expected)[part], atol=1e-13)
    still = inside & (after > lo) & (after < hi)
    assert not np.isin(np.flatnonzero(still), turned[begin:count]).any()  # as expected, exactly


def test_the_kept_matrix_believes_what_it_is_told():
    p = squared_hinge(900)
    rng = np.random.default_rng(7)
    factor = Factor(p.gram.factor)
    kept = KeptCross(factor, p, 1)
    t = random_answers(p, rng)
    kept.compare(t)
    kept.matrix(None, 1.0)
    turned = np.sort(rng.permutation(p.n)[:30])
    t[turned[:20]] *= -1.0
    kept.tell(turned, t)  # ten of them have not changed
    assert kept.compare(np.zeros(0)) == 20  # without a look at the answers
    J = np.flatnonzero(t > 0.0)
    assert kept.free == J.size
    assert np.allclose(kept.matrix(None, 1.0), factor.cross(J), rtol=1e-12, atol=1e-10)
    kept.clear()
    assert kept.compare(t) == J.size
    assert np.array_equal(kept.matrix(None, 1.0), factor.cross(J))


@pytest.mark.parametrize("turns", [1, 3])
def test_ways_to_solve_may_alternate(turns, monkeypatch):
    p = squared_hinge(3000, C=5.0)
    run = newton._Run(p, newton.Options(n_jobs=1), lambda snapshot: False, np.zeros(p.n))
    run.begin()
    run._begin_round()
    for turn in range(6):
        monkeypatch.setattr(_newton_steps, "KEPT_MOST", 0 if turn % (turns + 1) == turns else 2000)
        if not run._step(run.w - run.v, p.e):
            break
        assert np.allclose(run.v, run._weights(run.t), rtol=1e-10, atol=1e-8)
    assert np.abs(run.w - run.v).max() < 1e-6


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_steps_lead_to_is_what_the_answers_give(weighted, bias):
    p = squared_hinge(3000, weighted=weighted, bias=bias, C=5.0)
    run = newton._Run(p, newton.Options(gap_tol=1e-10, n_jobs=1), lambda snapshot: False, np.zeros(p.n))
    run.begin()
    run._begin_round()
    led = 0
    for _ in range(6):
        g, g_eta = run.w - run.v, p.e - p.F.T @ run.t
        if not run._step(g, g_eta):
            break
        led += not run.known
        assert np.allclose(run.v, run._weights(run.t), rtol=1e-11, atol=1e-9)
        slopes = run._products(run.w) + p.f0 + p.F @ run.eta
        assert np.allclose(run.s, slopes, rtol=1e-11, atol=1e-11)
        assert np.allclose(run.t, np.clip(-slopes / p.ridge, p.lo, p.hi), rtol=1e-9, atol=1e-9)
    assert led >= 2


@pytest.mark.parametrize(
    ("sparse", "weighted", "bias"), [(False, False, False), (True, True, False), (False, True, True)]
)
def test_squared_hinge_with_many_rows(sparse, weighted, bias):
    p = squared_hinge(40_000, sparse=sparse, weighted=weighted, bias=bias)
    results = [solve(p, "newton", gap_tol=1e-8, n_jobs=jobs) for jobs in (1, 2)]
    assert all(r.certificate.relative_gap <= 1e-8 for r in results)
    assert np.array_equal(results[0].a, results[1].a)  # threads change nothing
    begun = solve(p, "newton", gap_tol=1e-8, start=np.zeros(p.n))
    assert begun.certificate.dual == pytest.approx(results[0].certificate.dual, rel=2e-8)


def test_same_weights_as_liblinear_from_a_sample():
    p = squared_hinge(40_000, d=9)
    result = solve(p, "newton", gap_tol=1e-10)
    X = p.gram.factor
    peer = LinearSVC(C=1.0, fit_intercept=False, dual=False, tol=1e-10).fit(X, p.sign)
    assert np.allclose(X.T @ (p.sign * result.a), peer.coef_.ravel(), atol=1e-6)


@pytest.mark.parametrize("gap_tol", [1e-4, 1e-6])
def test_looks_once(gap_tol):
    p = squared_hinge(40_000, d=9)
    result = solve(p, "newton", gap_tol=gap_tol)
    assert result.certificate.relative_gap <= gap_tol
    assert np.isfinite(result.history.column("violation")).sum() == 1
    gaps = result.history.column("relative_gap")
    assert np.isfinite(gaps).sum() > 1  # of w and the answers to it, on the way
    believed, proved = result.history[-1], result.certificate
    assert believed.dual == pytest.approx(proved.dual, rel=1e-9)
    assert believed.primal == pytest.approx(proved.primal, rel=gap_tol)
    assert believed.violation >= 0.999 * proved.kkt_violation


def test_variables_that_are_not_in_the_order_of_their_points():
    p = squared_hinge(500)
    order = np.random.default_rng(5).permutation(500)
    mixed = type(p)(
        p.gram, order, p.sign[order], p.ridge[order], p.f0[order], p.lo[order], p.hi[order], p.F[order], p.e
    )
    one, other = (solve(q, "newton", gap_tol=1e-9) for q in (p, mixed))
    assert other.certificate.relative_gap <= 1e-9
    assert np.allclose(one.a[order], other.a, atol=1e-5)


def test_the_matrix_over_features_is_best_where_little_must_be_read():
    factor = Factor(np.zeros((5000, 40)))
    assert cost_of_features(factor, 10) <= least_cost(factor, 4000)
    assert cost_of_features(factor, 5) > least_cost(factor, 5)  # a system of five variables is nothing

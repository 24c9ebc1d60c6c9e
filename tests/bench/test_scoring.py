"""The judge: its gap is the certificate's, whoever found the solution and however it is laid out."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_iris

import dualgap
from dualgap.bench.libraries import LIBRARIES, Solution
from dualgap.bench.packages import OURS
from dualgap.bench.problems import PROBLEMS, Machine, Problem
from dualgap.bench.samples import subset
from dualgap.bench.scoring import Judge, judged, repaired
from dualgap.constraints import FEASIBLE, infeasibility

# A third of the samples: iterations of LIBSVM's threads are slow where they share cores.
X, Y = subset(*PROBLEMS["breast_cancer"].read(), 200)
TARGET = X[:, 0] + 0.1 * X[:, 1] ** 2
GAMMA = 1.0 / X.shape[1]
MACHINES = {
    "c_svc": Machine("c_svc", GAMMA, C=10.0),
    "nu_svc": Machine("nu_svc", GAMMA, nu=0.1),
    "eps_svr": Machine("eps_svr", GAMMA, C=2.0, epsilon=0.05),
    "nu_svr": Machine("nu_svr", GAMMA, C=2.0, nu=0.3),
    "one_class": Machine("one_class", GAMMA, nu=0.2),
    "svdd": Machine("svdd", GAMMA, C=1.0 / (0.2 * len(X)), nu=0.2),
}


def labels(row):
    return None if row in ("one_class", "svdd") else TARGET if row.endswith("svr") else Y


def solved(library, machine, goal, samples=X, y="usual"):
    y = labels(machine.row) if isinstance(y, str) else y
    fit = LIBRARIES[library].prepare(samples, y, machine, 200.0)(goal)
    model = fit.run()
    return model, fit.read(model)


def available(library, row):
    reason = LIBRARIES[library].absence(row)
    if reason:
        pytest.skip(f"{library} {reason}")


@pytest.mark.parametrize("row", MACHINES)
def test_our_models_score_as_their_certificate_says(row):
    model, solution = solved(OURS, MACHINES[row], {"gap_tol": 1e-5})
    score = Judge(X, labels(row), MACHINES[row]).score(solution)
    # The coefficients are those that were certified; scaling and rounding leave their last digits.
    assert score.gap == pytest.approx(model.certificate_.relative_gap, rel=1e-6, abs=1e-12)
    assert 0.0 < score.gap <= 1e-5
    assert score.support == len(model.support_)
    assert score.repaired <= FEASIBLE


@pytest.mark.parametrize("row", MACHINES)
@pytest.mark.parametrize("library", [name for name in LIBRARIES if name != OURS])
def test_peers_score_a_gap_that_falls_with_their_tolerance(library, row):
    available(library, row)
    judge = Judge(X, labels(row), MACHINES[row])
    loose, tight = (judge.score(solved(library, MACHINES[row], {"tol": tol})[1]) for tol in (1e-2, 1e-5))
    assert 0.0 <= tight.gap < loose.gap < 0.3
    assert tight.gap < 1e-3
    assert loose.repaired <= FEASIBLE


def test_single_precision_is_repaired_and_scored_against_the_double_precision_data():
    available("intelex", "c_svc")
    _, solution = solved("intelex", MACHINES["c_svc"], {"tol": 1e-3}, X.astype(np.float32))
    score = Judge(X, Y, MACHINES["c_svc"]).score(solution)
    assert 0.0 < score.gap < 0.1
    # Sums of a few hundred single precision numbers.
    assert score.repaired < 1e-4


def test_pairs_of_classes_are_summed_whatever_their_order():
    points, y = load_iris(return_X_y=True)
    # LIBSVM orders classes by their first sample, scikit-learn by value: reversed samples tell them apart.
    points, y = np.ascontiguousarray(points[::-1]), y[::-1].astype(float)
    machine = Machine("c_svc", 0.5, C=10.0)
    judge = Judge(points, y, machine)
    model, solution = solved(OURS, machine, {"gap_tol": 1e-6}, points, y)
    score = judge.score(solution)
    assert score.gap == pytest.approx(model.certificate_.relative_gap, rel=1e-6)
    # Each pair has 100 samples of the 150.
    assert score.entries < 3 * 100 * score.support
    for library in ("scikit-learn", "libsvm"):
        available(library, "c_svc")
        assert 0.0 < judge.score(solved(library, machine, {"tol": 1e-3}, points, y)[1]).gap < 1e-2


def test_a_wrong_solution_is_not_taken_for_a_good_one():
    model = sklearn.svm.SVC(C=10.0, gamma=GAMMA).fit(X, Y)
    wrong = Solution(model.support_.astype(np.intp), np.flip(model.dual_coef_, axis=1), model.classes_)
    right = Solution(model.support_.astype(np.intp), model.dual_coef_, model.classes_)
    judge = Judge(X, Y, MACHINES["c_svc"])
    assert judge.score(wrong).gap > 100 * judge.score(right).gap


def test_a_solution_is_scored_once(monkeypatch):
    judge = Judge(X, Y, MACHINES["c_svc"])
    _, solution = solved("scikit-learn", MACHINES["c_svc"], {"tol": 1e-3})
    first = judge.score(solution)
    monkeypatch.setattr(judge, "_compute", None)
    assert judge.score(solution) is first


def test_repairing_moves_no_further_than_needed():
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=GAMMA))
    problem = dualgap.build("c_svc", gram, Y, C=10.0)
    a = dualgap.solve(problem, gap_tol=1e-8).a
    off = np.clip(a * (1.0 + 1e-5 * np.random.default_rng(0).normal(size=a.size)), problem.lo, problem.hi)
    assert infeasibility(problem, off) > FEASIBLE
    mended = repaired(problem, off)
    assert infeasibility(problem, mended) < 1e-12
    assert np.all((mended >= problem.lo) & (mended <= problem.hi))
    assert np.abs(mended - off).sum() == pytest.approx(abs(Y @ off), rel=1e-9)
    assert np.array_equal(mended[off == 0.0], off[off == 0.0])
    certificate = judged(problem, off)
    assert certificate.relative_gap < 1e-4
    assert certificate.infeasibility == infeasibility(problem, off)


def test_repairing_takes_variables_off_their_bounds_only_where_it_has_to():
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=GAMMA))
    problem = dualgap.build("c_svc", gram, Y, C=1.0)
    corner = np.where(Y > 0, problem.hi, problem.lo)
    assert infeasibility(problem, repaired(problem, corner)) < 1e-12


# -- problems --------------------------------------------------------------------------------------------------


def test_a_part_keeps_the_proportions_of_the_classes():
    part, y = subset(X, Y, 100)
    assert part.shape == (100, X.shape[1])
    assert abs(np.mean(y > 0) - np.mean(Y > 0)) < 0.02
    assert subset(X, Y, 10_000)[0] is X
    assert subset(X, None, 50)[1] is None


def test_the_kernel_width_and_svdd_follow_the_data():
    problem = Problem("x", "", lambda: (X, None), "svdd", nu=0.5)
    machine = problem.machine(100, 20)
    assert machine.gamma == 0.05
    assert machine.C == 1.0 / 50
    assert problem.title() == "svdd nu=0.5 gamma=1/d"


@pytest.mark.parametrize("name", ["covtype_20k", "letter_c10", "usps", "cadata", "ijcnn1_nu_svc"])
def test_real_problems_are_what_the_table_says(name, data_folder):
    problem = PROBLEMS[name]
    points, y = problem.read()
    assert points.flags.c_contiguous
    assert points.dtype == np.float64
    classes = {"usps": 10, "cadata": None}.get(name, 2)
    if classes is None:
        assert abs(y.mean()) < 1e-9
        assert y.std() == pytest.approx(1.0)
    else:
        assert len(np.unique(y)) == classes
    if name == "covtype_20k":
        assert len(points) == 20_000
        assert points.min() >= 0.0
        assert points.max() <= 1.0
    if problem.row == "nu_svc":
        assert problem.nu < 2 * min(np.mean(y > 0), np.mean(y < 0))

"""Every formulation against Clarabel on the same quadratic program, and what `recover` makes of the answer."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dualgap import FORMULATIONS, Kernel, build, certify, make_gram, recover, solve

sys.path.insert(0, str(Path(__file__).parent))
from oracles import clarabel_solution
from problems import ROWS, data, has_model_without_bias, problem, target


def _cases():
    for row in ROWS:
        for bias in (True, False):
            if bias or has_model_without_bias(row):
                for functions in (0, 1, 3):
                    yield pytest.param(row, bias, functions, id=f"{row}-{'bias' if bias else 'nobias'}-phi{functions}")


CASES = tuple(_cases())


@pytest.mark.parametrize(("row", "bias", "functions"), CASES)
def test_clarabel_solution_is_certified_optimal(row, bias, functions):
    """Tests the table and the judge at once: a wrong row, or a wrong P or D, leaves a gap at Clarabel's optimum."""
    p = problem(row, bias=bias, functions=functions)
    a, eta, value, status = clarabel_solution(p)
    assert "Solved" in status
    certificate, best = certify(p, a, eta)
    assert certificate.relative_gap < 1e-8
    assert certificate.dual == pytest.approx(-value, rel=1e-8, abs=1e-10)
    assert certificate.primal == pytest.approx(-value, rel=1e-8, abs=1e-10)
    alone, _ = certify(p, a)  # the multipliers are found without help, too
    assert alone.relative_gap < 1e-8
    assert best.shape == (p.k,)


@pytest.mark.parametrize(("row", "bias", "functions"), [c for c in CASES if c.values[2] == 0])
def test_smo_equals_clarabel(row, bias, functions):
    p = problem(row, bias=bias)
    _, _, value, _ = clarabel_solution(p)
    result = solve(p, "smo", gap_tol=1e-10)
    assert result.certificate.dual == pytest.approx(-value, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("row", ROWS)
def test_primal_is_the_machines_own_objective(row):
    """P of the certificate against the textbook objective, written out from the recovered model."""
    X, y, t = data()
    gram = make_gram(X, Kernel("rbf", gamma=0.3), kind="full")
    C, nu, epsilon = (0.1 if row == "svdd" else 2.0), 0.3, 0.1
    w = np.random.default_rng(3).uniform(0.5, 2.0, size=len(y))
    p = build(row, gram, target(row, y, t), C=C, nu=nu, epsilon=epsilon, sample_weight=w)
    result = solve(p, gap_tol=1e-9)
    m = recover(p, result.a, result.eta)
    K = gram.matrix
    inner = K @ m.coefficients
    norm2 = m.coefficients @ inner
    f = inner + m.bias
    objective = {
        "c_svc": lambda: norm2 / 2 + C * w @ np.maximum(0, 1 - y * f),
        "squared_hinge": lambda: norm2 / 2 + C * w @ np.maximum(0, 1 - y * f) ** 2,
        "nu_svc": lambda: norm2 / 2 - nu * w.sum() * m.rho + w @ np.maximum(0, m.rho - y * f),
        "one_class": lambda: norm2 / 2 - nu * w.sum() * m.rho + w @ np.maximum(0, m.rho - inner),
        "svdd": lambda: (
            m.radius2 + C * w @ np.maximum(0, np.diag(K) - 2 * inner + norm2 - m.radius2)
        ) / 2,
        "eps_svr": lambda: norm2 / 2 + C * w @ np.maximum(0, np.abs(t - f) - epsilon),
        "squared_eps_svr": lambda: norm2 / 2 + C * w @ np.maximum(0, np.abs(t - f) - epsilon) ** 2,
        "nu_svr": lambda: (
            norm2 / 2 + C * (nu * w.sum() * m.epsilon + w @ np.maximum(0, np.abs(t - f) - m.epsilon))
        ),
    }[row]()  # fmt: skip
    assert result.certificate.primal == pytest.approx(objective, rel=1e-9)


def test_semi_parametric_coefficients_are_the_multipliers():
    """A target that is exactly a trend plus a wave: the free part takes all of it, the kernel part nothing."""
    X, _, _ = data(80)
    phi = [lambda X: X[:, 0], lambda X: np.sin(3 * X[:, 1])]
    y = 1.5 * X[:, 0] - 0.7 * np.sin(3 * X[:, 1]) + 0.25
    p = build("eps_svr", make_gram(X, Kernel("rbf", gamma=0.3)), y, C=1.0, epsilon=0.0, parametric=phi, X=X)
    a, eta, _, _ = clarabel_solution(p)
    certificate, eta = certify(p, a, eta)
    model = recover(p, a, eta)
    assert certificate.primal == pytest.approx(0.0, abs=1e-7)
    assert model.bias == pytest.approx(0.25, abs=1e-5)
    assert model.parametric == pytest.approx([1.5, -0.7], abs=1e-5)


def test_class_weights_multiply_sample_weights():
    X, y, _ = data()
    gram = make_gram(X, Kernel("rbf", gamma=0.3))
    by_class = build("c_svc", gram, y, C=2.0, class_weight={1.0: 3.0})
    assert by_class.hi == pytest.approx(np.where(y > 0, 6.0, 2.0))


def test_samples_of_weight_zero_are_left_out():
    X, y, t = data()
    w = np.ones(len(y))
    w[::3] = 0.0
    p = build("eps_svr", make_gram(X, Kernel("rbf", gamma=0.3)), t, sample_weight=w)
    assert p.n == 2 * np.count_nonzero(w)
    assert not np.isin(np.flatnonzero(w == 0), p.index).any()


@pytest.mark.parametrize(
    ("row", "arguments", "message"),
    [
        ("c_svm", {}, "Unknown formulation 'c_svm'; choose one of c_svc"),
        ("c_svc", {"C": 0.0}, "C must be positive; got 0.0"),
        ("c_svc", {"C": float("nan")}, "C must be positive; got nan"),
        ("nu_svc", {"nu": 1.5}, r"nu must lie in \(0, 1\]; got 1.5"),
        ("nu_svc", {"nu": 0.99}, "specified nu is infeasible: nu=0.99 exceeds"),
        ("svdd", {"C": 0.001}, "C=0.001 is too small for svdd"),
        ("eps_svr", {"epsilon": -1.0}, "epsilon must be non-negative; got -1.0"),
        ("c_svc", {"sample_weight": [-1.0] * 60}, "must be finite and non-negative"),
        ("c_svc", {"sample_weight": [0.0] * 60}, "at least one weight must be positive"),
        ("c_svc", {"sample_weight": [1.0]}, r"sample_weight must have shape \(60,\); got \(1,\)"),
        ("c_svc", {"parametric": np.ones((3, 1))}, "parametric must be functions of X or an array"),
        ("c_svc", {"parametric": [np.sin]}, "pass X"),
        ("c_svc", {"y": np.arange(60.0)}, r"needs labels \+1 and -1"),
        ("c_svc", {"y": None}, "c_svc needs y"),
        ("eps_svr", {"y": np.ones(3)}, "y has 3 entries where the Gram matrix has 60 points"),
        ("eps_svr", {"y": np.full(60, np.nan)}, "NaN or infinite"),
    ],
)
def test_bad_arguments_name_parameter_value_and_remedy(row, arguments, message):
    X, y, t = data()
    labels = arguments.pop("y", target(row, y, t) if row in FORMULATIONS else y)
    with pytest.raises(ValueError, match=message):
        build(row, make_gram(X, Kernel("rbf")), labels, **arguments)

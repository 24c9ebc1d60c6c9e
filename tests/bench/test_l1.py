"""The comparison on L1-SVMs: everybody solves the same problem, and is judged by the same bound."""

import json
import math
import types

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from dualgap.bench import l1_libraries
from dualgap.bench.l1 import _WARM_UP, L1Compared, L1Run, L1Settings, _rank, compare, geometric_mean
from dualgap.bench.l1_libraries import PEERS, installed, ready
from dualgap.bench.preparation import breast_cancer
from dualgap.cli import app
from dualgap.composite_certificate import certify_composite
from dualgap.l1svm import l1_problem, solve_l1_svm


@pytest.fixture(scope="module")
def hinge():
    return compare("breast_cancer", "hinge", L1Settings(repeat=1, limit=60.0))


def test_both_reach_the_same_certified_objective(hinge):
    assert hinge.reached
    assert hinge.ours.error <= 1e-6
    assert (hinge.peer.library,) == PEERS["hinge"]
    assert hinge.peer.objective == pytest.approx(hinge.ours.objective, rel=2e-6)
    assert hinge.bound <= hinge.ours.objective * (1 + 1e-12)
    assert hinge.ours.features == hinge.peer.features
    assert (hinge.rows, hinge.columns) == (569, 30)
    assert geometric_mean([hinge], "hinge") == pytest.approx(hinge.ratio)


def test_a_peer_that_does_not_get_there_says_so_and_bounds_the_ratio(monkeypatch):
    monkeypatch.setattr("dualgap.bench.l1.installed", lambda loss: ("liblinear",))
    one = compare("breast_cancer", "squared_hinge", L1Settings(error=1e-300, repeat=1, limit=60.0))
    assert not one.reached
    assert one.peer.note
    assert one.peer.error < 1e-6  # its smallest tolerance is good, if not as good as that
    assert np.isfinite(one.ratio)


def test_a_warm_up_ends_after_few_rounds(monkeypatch):
    """Its goal says so to those who might go on for ever; others do not mind it."""
    seen = []

    class Solver:
        def __init__(self, **options):
            seen.append(options)

        def solve(self, X, y, loss, penalty):
            return (np.zeros(X.shape[1]),)

    module = types.SimpleNamespace(AndersonCD=Solver, ProxNewton=Solver, L1=lambda weight: None)
    monkeypatch.setattr(l1_libraries, "importlib", types.SimpleNamespace(import_module=lambda name: module))
    monkeypatch.setattr(l1_libraries, "_squared_hinge", lambda: lambda C: None)
    X, y = breast_cancer()
    for peer in ("skglm", "skglm-newton"):
        solve = ready(peer, X, y, "squared_hinge", 1.0, 60.0)
        solve(_WARM_UP)
        solve({"tol": 1e-3})
    cd_warm, cd, newton_warm, newton = seen
    assert cd_warm["max_iter"] == newton_warm["max_iter"] == newton_warm["max_pn_iter"] == _WARM_UP["rounds"]
    assert cd["max_iter"] == newton["max_iter"] > 100
    assert "max_pn_iter" not in newton


@pytest.mark.parametrize("sparse", [False, True])
def test_every_peer_of_the_squared_hinge_solves_the_same_problem(sparse):
    X, y = breast_cancer()
    X = X[:150, :12]
    best = solve_l1_svm(X, y[:150], 2.0, loss="squared_hinge", bias="penalised").certificate.primal
    problem = l1_problem(X, y[:150], 2.0, loss="squared_hinge", bias="penalised")
    for peer in installed("squared_hinge"):
        if peer == "skglm-newton" and not sparse:
            continue  # the same code to us, and another half minute of compiling
        solve = ready(peer, sp.csr_matrix(X) if sparse else X, y[:150], "squared_hinge", 2.0, 60.0)
        x, _ = solve({"tol": 1e-7})
        assert certify_composite(problem, x)[0].primal == pytest.approx(best, rel=1e-6), peer


def test_the_fastest_peer_that_gets_there_is_compared_with():
    quick, slow = L1Run("skglm", 1.0, 1.0, 5.0, 1e-3), L1Run("liblinear", 3.0, 3.0, 5.0, 1e-7)
    lost = L1Run("liblinear-official", math.nan, math.nan)
    assert sorted([lost, quick, slow], key=lambda run: _rank(run, 1e-6)) == [slow, quick, lost]
    ours = L1Run("dualgap", 0.5, 0.5, 5.0, 0.0)
    one = L1Compared("a9a", "squared_hinge", 1, 1, 5.0, ours, slow, L1Settings(), (quick, lost))
    assert geometric_mean([one], "squared_hinge") == pytest.approx(6.0)
    assert geometric_mean([one], "squared_hinge", "skglm") == pytest.approx(2.0)
    assert np.isnan(geometric_mean([one], "squared_hinge", "highs"))


def test_peers_have_a_multiple_of_our_time():
    settings = L1Settings(limit=300.0, cap=20.0)
    assert settings.for_peers(L1Run("dualgap", 2.0, 2.0)).limit == 40.0
    assert settings.for_peers(L1Run("dualgap", 0.01, 0.01)).limit == 10.0
    assert settings.for_peers(L1Run("dualgap", 100.0, 100.0)).limit == 300.0


def test_settings_are_checked():
    with pytest.raises(ValueError, match="limit must be positive"):
        L1Settings(limit=0.0)


def test_command(hinge, tmp_path, monkeypatch):
    monkeypatch.setattr("dualgap.bench.l1.compare", lambda *arguments: hinge)
    file = tmp_path / "l1.json"
    command = ["bench", "l1", "-p", "breast_cancer", "--loss", "hinge", "--repeat", "1", "--json", str(file)]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    assert "mean ratio" in answer.output
    (row,) = json.loads(file.read_text())["results"]
    assert row["loss"] == "hinge"
    assert row["reached"]
    assert CliRunner().invoke(app, ["bench", "l1", "--list"]).exit_code == 0
    assert CliRunner().invoke(app, ["bench", "l1", "-p", "nothing"]).exit_code != 0

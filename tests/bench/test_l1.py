"""The comparison on L1-SVMs: everybody solves the same problem, and is judged by the same bound."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dualgap.bench.l1 import PEERS, L1Settings, compare, geometric_mean
from dualgap.cli import app


@pytest.fixture(scope="module")
def hinge():
    return compare("breast_cancer", "hinge", L1Settings(repeat=1, limit=60.0))


def test_both_reach_the_same_certified_objective(hinge):
    assert hinge.reached
    assert hinge.ours.error <= 1e-6
    assert hinge.peer.library == PEERS["hinge"]
    assert hinge.peer.objective == pytest.approx(hinge.ours.objective, rel=2e-6)
    assert hinge.bound <= hinge.ours.objective * (1 + 1e-12)
    assert hinge.ours.features == hinge.peer.features
    assert (hinge.rows, hinge.columns) == (569, 30)
    assert geometric_mean([hinge], "hinge") == pytest.approx(hinge.ratio)


def test_a_peer_that_does_not_get_there_says_so_and_bounds_the_ratio():
    one = compare("breast_cancer", "squared_hinge", L1Settings(error=1e-300, repeat=1, limit=60.0))
    assert not one.reached
    assert one.peer.note
    assert one.peer.error < 1e-6  # its smallest tolerance is good, if not as good as that
    assert np.isfinite(one.ratio)


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

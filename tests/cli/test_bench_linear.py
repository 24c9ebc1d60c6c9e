"""``dualgap bench linear``: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dualgap.bench import linear, machine
from dualgap.bench.linear_problems import PROBLEMS
from dualgap.cli import app

runner = CliRunner()


def run(*arguments, code=0):
    result = runner.invoke(app, ["bench", "linear", *map(str, arguments)])
    assert result.exit_code == code, result.output
    if code == 2:
        assert len(result.stderr.splitlines()) == 1, result.stderr
    return result


def test_from_end_to_end_and_resumed(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    # Somebody may be editing the package while its tests run.
    monkeypatch.setattr(machine, "_source_digest", lambda: "0")
    file, picture = tmp_path / "linear.json", tmp_path / "linear.png"
    asked = ("-p", "breast_cancer_hinge_C10", "--peer", "scikit-learn", "--repeat", 1, "--seeds", 2, "--json", file)
    shown = run(*asked, "--plot", picture).stdout
    assert "hinge C=10" in shown
    assert "scikit-learn*" in shown
    assert "over the best peer, float64 input (1 problem)" in shown
    assert "dualgap on 1 of 1 problem, scikit-learn on 1 of 1 problem" in shown
    assert "time to relative gap 1e-06 from 2 seeds" in shown
    assert "scikit-learn warned: Liblinear failed to converge" in shown
    content = json.loads(file.read_text())
    assert content["format"] == "dualgap bench linear"
    (comparison,) = content["problems"][0]["tight"]
    assert max(comparison["peer"]["gaps"] + comparison["ours"]["gaps"] + comparison["ours"]["certified"]) <= 1e-6
    assert picture.read_bytes().startswith(b"\x89PNG")

    monkeypatch.setattr(linear, "run_problem", None)
    assert "scikit-learn*" in run(*asked, "--resume").stdout
    assert "was made with intercept False" in run(*asked, "--resume", "--intercept", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "nonsense"), "there is no problem 'nonsense'; choose among a9a_hinge_C0.1"),
        (("--peer", "libsvm"), "there is no peer 'libsvm'; choose among scikit-learn, liblinear"),
        (("--seeds", "-1"), "--seeds -1: must not be negative"),
        (("--seeds", "2", "--quick"), "drop one of them"),
        (("--resume",), "name it with --json"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    assert message in run("-p", "breast_cancer", *arguments, code=2).stderr


def test_missing_data_is_found_before_any_work(monkeypatch):
    monkeypatch.delenv("DUALGAP_DATA", raising=False)
    assert "DUALGAP_DATA is not set" in run("-p", "breast_cancer", "-p", "a9a", code=2).stderr


def test_the_problems_are_listed():
    shown = run("--list").stdout
    assert all(name in shown for name in PROBLEMS)

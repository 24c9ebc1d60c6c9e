"""``dualgap reproduce`` as a user meets it; the experiments are played by a record."""

import json
from importlib import import_module

import pytest
from typer.testing import CliRunner

from dualgap.cli import app
from dualgap.reproduce import experiments
from dualgap.reproduce.claims import judged
from dualgap.reproduce.record import Record, Table

runner = CliRunner()


def played(name, *, quick, tell=None):
    claims = [judged("It holds.", "abstract", True, "3 of 3")]
    tables = [Table("Table 1", [{"data": "a", "iters": 1234}])]
    return Record(
        name, f"Title of {name}", "P", quick, "d", "2 seeded partitions", {}, ["x"], tables=tables, claims=claims
    )


@pytest.fixture
def stage(monkeypatch):
    calls = []

    def run(name, **settings):
        calls.append(name)
        return played(name, **settings)

    monkeypatch.setattr(experiments, "run", run)
    monkeypatch.setattr(experiments, "check_data", lambda name, quick: None)
    return calls


def test_unknown_name():
    result = runner.invoke(app, ["reproduce", "nonsense"])
    assert result.exit_code == 2
    assert "Unknown experiment 'nonsense'" in result.output
    assert "rosen, sesop, lecture, dcd, mpd or all" in result.output


@pytest.mark.parametrize("name", ["rosen", "sesop", "lecture", "dcd", "mpd", "all"])
def test_missing_data_is_said_at_once(name, monkeypatch, tmp_path):
    monkeypatch.delenv("DUALGAP_DATA", raising=False)
    result = runner.invoke(app, ["reproduce", name, "--quick"])
    assert result.exit_code == 2
    assert "DUALGAP_DATA" in result.output
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path))
    assert "no such file in the folder that DUALGAP_DATA names" in runner.invoke(app, ["reproduce", name]).output


def test_resume_needs_a_folder():
    result = runner.invoke(app, ["reproduce", "rosen", "--continue"])
    assert result.exit_code == 2
    assert "name it with --output" in result.output


def test_all_writes_files_and_goes_on(stage, tmp_path):
    out = tmp_path / "new" / "results"
    result = runner.invoke(
        app, ["reproduce", "all", "--quick", "--output", str(out), "--json", str(tmp_path / "all.json")]
    )
    assert result.exit_code == 0, result.output
    assert stage == ["rosen", "sesop", "lecture", "dcd", "mpd"]
    assert "1,234" in result.output
    assert "reproduced" in result.output
    assert sorted(p.name for p in out.iterdir()) == sorted([*(f"{n}.json" for n in stage), "index.html", "README.md"])
    assert [one["name"] for one in json.loads((tmp_path / "all.json").read_text())] == stage
    (out / "dcd.json").unlink()
    stage.clear()
    again = runner.invoke(app, ["reproduce", "all", "--quick", "--continue", "--output", str(out)])
    assert again.exit_code == 0, again.output
    assert stage == ["dcd"]
    assert "Title of mpd" in (out / "index.html").read_text()
    contents = (out / "README.md").read_text()
    assert all(f"[{name}.json]({name}.json)" in contents for name in ("rosen", "sesop", "lecture", "dcd", "mpd"))
    assert "| reproduced | It holds. (abstract) | 3 of 3 |" in contents


def test_an_interrupt_keeps_what_is_finished(monkeypatch, tmp_path):
    def run(name, **settings):
        if name == "sesop":
            raise KeyboardInterrupt
        return played(name, **settings)

    monkeypatch.setattr(experiments, "run", run)
    monkeypatch.setattr(experiments, "check_data", lambda name, quick: None)
    result = runner.invoke(app, ["reproduce", "all", "--quick", "--output", str(tmp_path)])
    assert result.exit_code == 130
    assert "--continue" in result.output
    assert (tmp_path / "rosen.json").exists()
    assert not (tmp_path / "sesop.json").exists()


def test_lines_of_progress_where_there_is_no_terminal(monkeypatch, tmp_path):
    def run(name, *, quick, tell):
        for step in range(3):
            tell(f"{name}: step {step}")
        return played(name, quick=quick)

    monkeypatch.setattr(experiments, "run", run)
    monkeypatch.setattr(experiments, "check_data", lambda name, quick: None)
    monkeypatch.setattr(import_module("dualgap.cli.reproduce"), "_LINE_EVERY", 0.0)  # the package has the command
    result = runner.invoke(app, ["reproduce", "dcd", "--quick"])
    assert [line.split(" (")[0] for line in result.stderr.splitlines()[:3]] == [f"dcd: step {k}" for k in range(3)]
    assert result.stderr.splitlines()[3].startswith("dcd: done in ")

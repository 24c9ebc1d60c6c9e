"""``dualgap bench kernel``: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dualgap.bench import kernel, machine
from dualgap.bench.problems import PROBLEMS
from dualgap.cli import app

runner = CliRunner()


def run(*arguments, code=0):
    result = runner.invoke(app, ["bench", "kernel", *map(str, arguments)])
    assert result.exit_code == code, result.output
    if code == 2:
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert result.stderr.startswith("error: ")
    return result


def test_from_end_to_end_and_resumed(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    # Somebody may be editing the package while its tests run.
    monkeypatch.setattr(machine, "_source_digest", lambda: "0")
    file, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    asked = ("-p", "breast_cancer", "--peer", "scikit-learn", "--quick", "--json", file)
    result = run(*asked, "--plot", picture)
    shown = result.stdout
    assert "c_svc C=10 gamma=1/d" in shown
    assert "scikit-learn*" in shown
    assert "over scikit-learn, float64 input (1 problem)" in shown
    assert "equal gap" not in shown
    assert "single runs of the fit alone, cache 4000 MB" in shown
    assert result.stderr.startswith("breast_cancer: done in ")
    content = json.loads(file.read_text())
    assert content["settings"]["repeat"] == 1
    (comparison,) = content["problems"][0]["default"]
    assert len(comparison["peer"]["times"]) == len(comparison["ours"]["times"]) == 1
    assert comparison["ours"]["gaps"][0] <= comparison["peer"]["gaps"][0]
    assert picture.read_bytes().startswith(b"\x89PNG")

    monkeypatch.setattr(kernel, "run_problem", None)
    assert "scikit-learn*" in run(*asked, "--resume").stdout
    assert "exists; add --resume" in run(*asked, code=2).stderr
    assert (
        "was made with cache_size 4000.0, and this is 99.0"
        in run(*asked, "--resume", "--cache-size", 99, code=2).stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "nonsense"), "there is no problem 'nonsense'; choose among a9a"),
        (("--peer", "nonsense"), "there is no peer 'nonsense'; choose among scikit-learn"),
        (("--repeat", "0"), "--repeat 0: must be positive"),
        (("--limit", "-1"), "--limit -1: must be positive"),
        (("--cache-size", "0"), "--cache-size 0: must be positive"),
        (("--gap", "0"), "--gap 0: must be between 0 and 1"),
        (("--resume",), "name it with --json"),
        (("--plot", "bench.doc"), "must end in .png"),
        (("--json", "no_such_folder/bench.json"), "does not exist; create it first"),
        (("--repeat", "many"), "Invalid value for '--repeat'"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run("-p", "breast_cancer", *arguments, code=2).stderr


def test_missing_data_is_found_before_any_work(monkeypatch, tmp_path):
    monkeypatch.delenv("DUALGAP_DATA", raising=False)
    assert "DUALGAP_DATA is not set" in run("-p", "breast_cancer", "-p", "letter_c10", code=2).stderr
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path))
    assert "letter.svm.xz: no such file" in run("-p", "letter_c10", code=2).stderr


def test_the_problems_are_listed():
    shown = run("--list").stdout
    assert all(name in shown for name in PROBLEMS)


def test_an_interrupt_says_where_results_are(tmp_path, monkeypatch):
    file = tmp_path / "bench.json"

    def interrupted(problems, report, settings, *, file, **rest):
        file.write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel, "run_all", interrupted)
    result = run("-p", "breast_cancer", "--json", file, code=130)
    assert f"what was finished is in {file}; --resume goes on from there" in result.stderr


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from dualgap.cli import main\n"
        "sys.argv[1:] = ['bench', 'kernel', '--help']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "assert not {'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "--problem" in finished.stdout

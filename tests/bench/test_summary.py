"""The summary of all comparisons, the page about them, the command that makes both, and the README's figures."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from dualgap.bench import REPEAT, kernel, l1_series, linear, machine, summary
from dualgap.bench.kernel import Settings
from dualgap.bench.linear import LinearSettings
from dualgap.bench.packages import OURS
from dualgap.bench.results import Comparison, LinearResult, ProblemResult, Report, Runs
from dualgap.cli import app

ROOT = Path(__file__).resolve().parents[2]
runner = CliRunner()


def runs(library, seconds, precision="float64"):
    return Runs(library, precision, {"tol": 1e-3}, [seconds], [1e-4], support=5)


def capped(ours):
    peer = Runs("libsvm", "float64", reason="not there after 10 s, at tol=1e-5", stopped=10.0)
    return Comparison(peer, ours)


def kernel_result(name="breast_cancer"):
    ours = runs(OURS, 1.0)
    default = [
        Comparison(runs("scikit-learn", 8.0), ours),
        Comparison(runs("libsvm", 2.0), ours),
        Comparison(runs("intelex", 3.0, "float32"), runs(OURS, 1.0, "float32")),
    ]
    return ProblemResult(name, "c_svc C=10", 569, 30, default=default, tight=[capped(ours)], memory={"float64": 1})


def linear_result(name="breast_cancer_hinge_C10"):
    ours = runs(OURS, 0.5)
    comparisons = [Comparison(runs("scikit-learn", 2.0), ours)]
    spread = [
        Runs(OURS, "float64", times=[3.0, 1.0, 2.5], gaps=[1e-7] * 3),
        Runs("scikit-learn", "float64", reason="x"),
    ]
    return LinearResult(name, "hinge C=10", 569, 30, default=comparisons, tight=comparisons, spread=spread)


def report(kind, results, **changes):
    settings = asdict(Settings() if kind == "kernel" else LinearSettings())
    where = {"processor": "P", "cores": 2, "memory_gb": 8, "system": "S"}
    return Report(where, {"dualgap": "1", "numpy": "2"}, settings, results, kind, date="2030-01-02", **changes)


def whole():
    return summary.summarise(
        {"kernel": report("kernel", [kernel_result()], left_out=["a9a"]), "linear": report("linear", [linear_result()])}
    )


def test_means_and_bounds():
    part = whole()["parts"]["kernel"]
    means = {(mean["over"], mean["precision"]): mean for mean in part["means"]}
    assert means["the fastest peer", "float64"]["default"] == {"mean": pytest.approx(2.0), "least": 2.0, "count": 1}
    assert means["scikit-learn", "float64"]["default"]["mean"] == pytest.approx(8.0)
    assert means["the fastest peer", "float32"]["default"]["mean"] == pytest.approx(3.0)
    # Who was ended at the cap has no ratio, but a bound of it.
    assert means["libsvm", "float64"]["tight"] is None
    assert means["libsvm", "float64"]["tight_bounds"] == {"mean": pytest.approx(10.0), "count": 1}
    (problem,) = part["problems"]
    assert (problem["default"]["peer"], problem["default"]["ratio"]) == ("libsvm", 2.0)
    assert (problem["tight"]["ratio"], problem["tight"]["at_least"]) == (None, 10.0)


def test_a_mean_with_bounds_is_a_bound_itself():
    reached = replace(kernel_result("second"), tight=[Comparison(runs("libsvm", 2.5), runs(OURS, 1.0))])
    part = summary.summarise({"kernel": report("kernel", [kernel_result(), reached])})["parts"]["kernel"]
    mean = next(one for one in part["means"] if one["over"] == "libsvm")
    assert mean["tight"] == {"mean": pytest.approx(2.5), "least": 2.5, "count": 1}
    assert mean["tight_bounds"] == {"mean": pytest.approx(5.0), "count": 1}  # the root of 2.5 times 10
    cell = summary.mean_cell(mean["tight"], mean["tight_bounds"])
    assert cell == "2.5 (1 problem, least 2.50); at least 5.0 with 1 ended at the cap"


def test_linear_peers_have_no_fastest_one_at_default_tolerance():
    means = {mean["over"]: mean for mean in whole()["parts"]["linear"]["means"]}
    assert means["the fastest peer"]["default"] is None
    assert means["the fastest peer"]["tight"]["mean"] == pytest.approx(4.0)
    assert means["scikit-learn"]["default"]["mean"] == pytest.approx(4.0)


def test_a_problem_without_any_result_is_a_row_of_dashes():
    absent = Comparison(Runs("libsvm", "float64", reason="not installed"), Runs(OURS, "float64"))
    empty = ProblemResult("x", "c_svc", 5, 2, default=[absent], tight=[absent])
    text = summary.markdown(summary.summarise({"kernel": report("kernel", [empty])}))
    assert "| x | c_svc | 5 x 2 | – | – | – | – | – | – |" in text


def test_markdown_says_all_of_it():
    text = summary.markdown(whole())
    assert "**Kernel machines** (P, 2 cores; dualgap 1; 2030-01-02)" in text
    assert "| scikit-learn, float64 input | 8.0 (1 problem, least 8.00) | – |" in text
    assert "| libsvm, float64 input | 2.0 (1 problem, least 2.00) | at least 10.0 with 1 ended at the cap |" in text
    assert "1.00 s | 2.00 s (libsvm) | 2.0 | 1.00 s | ended at the cap | > 10 |" in text
    assert "Not run for lack of time: a9a." in text
    assert "| breast_cancer_hinge_C10 | dualgap | 3 | 1.00 s | 2.50 s | 3.00 s |" in text


def test_the_first_page_has_the_means_only_and_no_part_without_problems():
    short = summary.markdown(whole(), problems=False)
    assert "| libsvm, float64 input |" in short
    assert "| breast_cancer |" not in short
    assert summary.markdown(summary.summarise({"kernel": report("kernel", [])})) == ""


def test_the_file_is_read_back_and_others_are_refused(tmp_path):
    path = tmp_path / summary.SUMMARY
    assert summary.section(tmp_path) == ""
    summary.write_summary(whole(), path)
    assert summary.read_summary(path) == json.loads(json.dumps(whole()))
    assert summary.markdown(summary.read_summary(path)) == summary.markdown(whole())
    assert "[All tables](bench.html)" in summary.section(tmp_path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="is not a file that"):
        summary.read_summary(path)


# -- the command -----------------------------------------------------------------------------------------------


@pytest.fixture
def stage(monkeypatch):
    calls = []

    def play(make):
        def run(problem, settings, tell):
            calls.append(problem.name)
            found = make(problem.name)
            return found if getattr(settings, "seeds", True) else replace(found, spread=[])

        return run

    # Somebody may be editing the package while its tests run.
    monkeypatch.setattr(machine, "_source_digest", lambda: "0")
    monkeypatch.setattr(kernel, "run_problem", play(kernel_result))
    monkeypatch.setattr(linear, "run_problem", play(linear_result))
    return calls


def invoke(*arguments, code=0):
    result = runner.invoke(app, ["bench", "all", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_all_writes_one_page_and_goes_on(stage, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "results"
    asked = ("-p", "breast_cancer", "--output", out)
    shown = invoke(*asked).output
    # The name means a kernel problem and a set of linear ones.
    assert len(stage) == 5
    assert ">10x" in shown
    names = ["bench-kernel", "bench-linear"]
    expected = [
        *(f"{name}.{end}" for name in names for end in ("json", "svg")),
        "bench.json",
        "bench.html",
        "README.md",
    ]
    assert sorted(path.name for path in out.iterdir()) == sorted(expected)
    page = (out / "bench.html").read_text()
    assert page.count("<svg") == 2
    assert '<td class="n">&gt;10x</td>' in page
    assert "[1] libsvm: not there after 10 s" in page
    assert "<script" not in page
    assert page.index("8.0 (1 problem, least 8.00)") < page.index("Default tolerance</h3>")
    assert "peers scikit-learn intelex libsvm" in page
    assert "## Beside other libraries" in (out / "README.md").read_text()
    assert "add --continue" in invoke(*asked, code=2).output
    stage.clear()
    monkeypatch.setattr("dualgap.cli.bench_all._draw", lambda report, path: "")  # which takes a second
    invoke(*asked, "--continue")
    assert stage == []


def test_one_kind_keeps_what_the_other_has_found(stage, tmp_path, monkeypatch):
    monkeypatch.setattr("dualgap.cli.bench_all._draw", lambda report, path: "")
    monkeypatch.setattr("dualgap.bench.problems.check_files", lambda files: None)
    for name, kinds in (("breast_cancer_hinge_C10", ["linear"]), ("letter_c10", ["kernel", "linear"])):
        invoke("-p", name, "--quick", "--output", tmp_path)
        assert list(summary.read_summary(tmp_path / "bench.json")["parts"]) == kinds
    assert stage == ["breast_cancer_hinge_C10", "letter_c10"]


def test_problems_beyond_the_budget_are_named(stage, tmp_path, monkeypatch):
    monkeypatch.setattr("dualgap.cli.bench_all._draw", lambda report, path: "")
    shown = invoke("-p", "breast_cancer", "--budget", "1e-9", "--output", tmp_path).output
    assert stage == []
    assert "for lack of time: breast_cancer" in shown
    part = summary.read_summary(tmp_path / "bench.json")["parts"]["linear"]
    assert "breast_cancer_hinge_C10" in part["left_out"]


def test_l1_machines_stand_beside_the_others(stage, tmp_path, monkeypatch):
    def ran(library, cpu, error, note=""):
        return SimpleNamespace(library=library, cpu=cpu, error=error, note=note, tol=None, features=3)

    def compare(name, loss, settings, tell):
        asked.append((name, settings))
        peers = {"hinge": ran("highs", 6.0, 1e-9), "squared_hinge": ran("liblinear", 9.0, 1e-3, "over the limit")}
        return SimpleNamespace(rows=20, columns=5, ours=ran(OURS, 2.0, 1e-7), peer=peers[loss])

    asked = []
    home = SimpleNamespace(
        LOSSES=("hinge", "squared_hinge"), SETS=("breast_cancer",), USUAL=(), L1Settings=lambda *a: a, compare=compare
    )
    monkeypatch.setattr(l1_series, "available", lambda: True)
    monkeypatch.setattr(l1_series, "_home", lambda: home)
    monkeypatch.setattr("dualgap.cli.bench_all._draw", lambda report, path: "")
    names = ["l1_breast_cancer_hinge", "l1_breast_cancer_squared_hinge"]
    shown = invoke("-p", names[0], "-p", names[1], "--output", tmp_path).output
    assert asked == [("breast_cancer", (1.0, 1e-6, REPEAT, 60.0))] * 2
    assert ">4.5x" in shown
    text = summary.markdown(summary.read_summary(tmp_path / "bench.json"))
    assert "| the fastest peer, hinge, float64 input | 3.0 (1 problem, least 3.00) |" in text
    assert "| the fastest peer, squared hinge, float64 input | at least 4.5 with 1 ended at the cap |" in text
    assert "| l1_breast_cancer_hinge | L1 hinge C=1 | 20 x 5 | 2.00 s | 6.00 s (highs) | 3.0 |" in text
    assert "L1 machines" in (tmp_path / "bench.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "nonsense"), "there is no problem 'nonsense'"),
        (("--budget", "0"), "--budget 0: must be positive"),
        (("-p", "breast_cancer", "--cap", "-1"), "--cap -1: must be positive"),
        (("--continue",), "name it with --output"),
    ],
)
def test_mistakes_are_one_line(stage, arguments, message):
    assert message in invoke(*arguments, code=2).output


# -- the README ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("readme_figures", ROOT / "benchmarks" / "readme_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_are_put_between_the_markers_and_again_the_same(script):
    document = f"# Title\n\n{script.BEGIN}\nold\n{script.END}\n\nend\n"
    once = script.rewritten(document, "| new |\n")
    assert once == f"# Title\n\n{script.BEGIN}\n| new |\n{script.END}\n\nend\n"
    assert script.rewritten(once, "| new |\n") == once
    for broken in ("no markers", f"{script.END} {script.BEGIN}", f"{script.BEGIN} {script.BEGIN} {script.END}"):
        with pytest.raises(ValueError, match="needs one line"):
            script.rewritten(broken, "x")


def test_the_script_rewrites_a_document(script, tmp_path, monkeypatch, capsys):
    document, results = tmp_path / "R.md", tmp_path / "bench.json"
    document.write_text(f"a\n{script.BEGIN}\n{script.END}\nb\n")
    summary.write_summary(whole(), results)
    arguments = ["readme_figures.py", "--document", str(document), "--results", str(results)]
    monkeypatch.setattr("sys.argv", [*arguments, "--check"])
    assert script.main() == 1
    monkeypatch.setattr("sys.argv", arguments)
    assert script.main() == 0
    text = document.read_text()
    assert "| scikit-learn, float64 input | 8.0" in text
    assert script.main() == 0
    assert document.read_text() == text
    monkeypatch.setattr("sys.argv", [*arguments, "--check"])
    assert script.main() == 0
    results.unlink()
    assert script.main() == 2
    assert "error: " in capsys.readouterr().err


def test_the_readme_shows_what_was_measured(script):
    document, results = ROOT / "README.md", ROOT / "docs" / "results" / "bench.json"
    text = document.read_text(encoding="utf-8")
    if not results.exists() or script.BEGIN not in text:
        pytest.skip("there is no docs/results/bench.json yet, or the README has no markers for its figures")
    assert script.rewritten(text, summary.markdown(summary.read_summary(results), problems=False)) == text

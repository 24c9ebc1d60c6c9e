"""The comparison of linear machines, with fits in this process and times that are made up."""

from __future__ import annotations

import io
from dataclasses import asdict, replace
from typing import ClassVar

import pytest
from rich.console import Console

from dualgap.bench import linear_tables, plot, tables
from dualgap.bench.linear import LinearSettings, run_all, run_problem
from dualgap.bench.linear_libraries import LIBRARIES, PEERS, select_peers
from dualgap.bench.linear_problems import PROBLEMS, select
from dualgap.bench.machine import describe_machine, describe_versions
from dualgap.bench.packages import OURS
from dualgap.bench.results import Comparison, LinearResult, Report, Runs, read_report, write_report
from dualgap.bench.samples import read_samples
from dualgap.bench.worker import OverLimitError, _fit

SECONDS = {OURS: 2.0, "scikit-learn": 10.0, "liblinear": 6.0, "sgd": 1.0}
PROBLEM = PROBLEMS["breast_cancer_hinge_C10"]


class InProcess:
    """A worker without a process, by a clock of its own."""

    warm_up = 0.5
    log: ClassVar[list[tuple[str, dict[str, float]]]] = []

    def __init__(self, task):
        self.name = task.library
        X, y = read_samples(task.folder, task.precision)
        self.ready = LIBRARIES[self.name].prepare(X, y, task.machine, task.threads)
        if self.name == OURS:
            _fit(self.ready({"gap_tol": 1e-3}))  # compiles, as a worker's warm-up does: limits of time are real ones

    def fit(self, goal, limit):
        self.log.append((self.name, goal))
        if SECONDS[self.name] > limit:
            raise OverLimitError(f"over the limit of {limit:g} s")
        return replace(_fit(self.ready(goal)), seconds=SECONDS[self.name])

    def close(self):
        pass


@pytest.fixture(autouse=True)
def empty_log():
    InProcess.log.clear()


def printed(table):
    out = io.StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


@pytest.fixture(scope="module")
def whole():
    """Both tables and the spread over seeds, with scikit-learn's two machines."""
    InProcess.log.clear()
    settings = LinearSettings(repeat=2, gap=1e-4, peers=("scikit-learn", "sgd"), seeds=3)
    return run_problem(PROBLEM, settings, launch=InProcess), list(InProcess.log)


def test_the_reference_comes_first_and_is_certified(whole):
    result, log = whole
    assert log[0] == (OURS, {"gap_tol": 1e-9, "time_limit": 300.0, "reference": 1.0})
    assert 0.0 <= result.reference["gap"] <= 1e-9
    assert result.reference["seconds"] == SECONDS[OURS]
    assert (result.n, result.d, result.nonzeros, result.precision) == (569, 30, 569 * 30, "float64")


def test_dualgap_is_asked_for_the_accuracy_that_the_peer_reached(whole):
    result, _ = whole
    assert [c.peer.library for c in result.default] == ["scikit-learn", "sgd"]
    for c in result.default:
        assert c.peer.goal == dict(LIBRARIES[c.peer.library].goal)
        assert c.ours.goal["gap_tol"] <= 0.98 * c.peer.gap
        # The weights are at least as good as the proof says: the reference lies above dualgap's own dual value.
        assert c.ours.gap <= max(c.ours.certified) + 1e-9 <= c.peer.gap
        assert c.ratio == SECONDS[c.peer.library] / SECONDS[OURS]
        assert len(c.peer.times) == len(c.ours.times) == 2
        assert c.peer.certified == []
    assert result.history["float64"][-1][1] <= 1e-4


def test_running_out_of_iterations_is_recorded_and_mended_where_a_gap_is_asked_for(whole):
    result, log = whole
    default, tight = result.default[0].peer, result.tight[0].peer
    assert default.warning == "Liblinear failed to converge, increase the number of iterations."
    assert tight.goal["max_iter"] > 1000
    assert tight.warning == ""
    assert tight.gap <= 1e-4
    # Its default tolerance first, without the limit: nothing tighter than needed is tried.
    assert (
        next(goal for name, goal in log if name == "scikit-learn" and goal["max_iter"] > 1000)["tol"]
        == LIBRARIES["scikit-learn"].goal["tol"]
    )
    assert result.tight[1].peer.reason.startswith("its gap stays at")


def test_the_spread_goes_over_seeds(whole):
    result, log = whole
    ours, theirs = result.spread
    assert (ours.library, theirs.library) == (OURS, "scikit-learn")
    assert len(ours.times) == len(theirs.times) == 3
    assert [goal["seed"] for name, goal in log if name == "scikit-learn" and "seed" in goal] == [0, 1, 2]
    assert theirs.goal == result.tight[0].peer.goal
    # Another seed is another run.
    assert len(set(theirs.gaps)) == 3
    notes = tables.Footnotes()
    shown = printed(linear_tables.spread_table([result], notes))
    assert ours.solver
    assert ours.solver in shown
    assert linear_tables.spread_table([replace(result, spread=[])], notes) is None


def test_tables_show_what_was_found(whole):
    result, _ = whole
    notes = tables.Footnotes()
    default = printed(tables.comparison_table([result], "default", notes, best=False))
    assert "certified" in default
    assert "*" not in default
    assert "[1] scikit-learn warned: Liblinear failed to converge" in notes.lines()[0]
    assert "scikit-learn*" in printed(tables.comparison_table([result], "tight", notes))
    assert linear_tables.reached([result], PEERS) == [
        "dualgap on 1 of 1 problem",
        "scikit-learn on 1 of 1 problem",
        "sgd on 0 of 1 problem",
    ]
    assert "17,070" in printed(linear_tables.problem_table([result]))
    found = {mean.over: mean.value for mean in tables.means([result], "default", PEERS, best=False)}
    assert found == {"scikit-learn": pytest.approx(5.0), "sgd": pytest.approx(0.5)}
    assert {mean.over for mean in tables.means([result], "tight", PEERS)} == {"the best peer", "scikit-learn"}


def test_those_who_cannot_take_part_say_why(monkeypatch):
    monkeypatch.setitem(LIBRARIES, "liblinear", replace(LIBRARIES["liblinear"], module="no_such_module"))
    monkeypatch.setitem(SECONDS, "scikit-learn", 6.0)
    settings = LinearSettings(repeat=1, gap=1e-3, limit=5.0, peers=("scikit-learn", "liblinear", "sgd"), intercept=True)
    result = run_problem(PROBLEMS["breast_cancer_squared_hinge_C0.1"], settings, launch=InProcess)
    assert {c.peer.library: c.peer.reason for c in result.default} == {
        "scikit-learn": "over the limit of 5 s",
        "liblinear": "not installed; pip install 'dualgap[bench]' brings it",
        "sgd": "takes part with the hinge loss only",
    }
    assert LIBRARIES["sgd"].absence(PROBLEM.machine(intercept=True)) == "has no penalised intercept"
    # dualgap still runs, by itself.
    assert all(c.ours.goal == {"gap_tol": 1e-3} and c.ours.seconds == 2.0 for c in result.default)
    assert result.title == "squared_hinge C=0.1 intercept"
    assert [c.ours.reason for c in result.tight] == [""] * 3
    # Who could be asked and did not get there counts; who could not be asked does not.
    assert linear_tables.reached([result], PEERS) == ["dualgap on 1 of 1 problem", "scikit-learn on 0 of 1 problem"]


def test_without_a_reference_nobody_is_measured(monkeypatch):
    monkeypatch.setitem(SECONDS, OURS, 1e9)
    result = run_problem(PROBLEM, LinearSettings(repeat=1, limit=1.0, peers=("scikit-learn",)), launch=InProcess)
    (comparison,) = result.default
    assert comparison.peer.reason == comparison.ours.reason == "there is no reference: over the limit of 62 s"
    assert result.tight == []
    assert printed(tables.comparison_table([result], "default", tables.Footnotes()))


def test_settings_without_meaning_are_refused():
    with pytest.raises(ValueError, match="--seeds -1: must not be negative"):
        LinearSettings(seeds=-1).check()
    with pytest.raises(ValueError, match="drop one of them"):
        LinearSettings(seeds=2, quick=True).check()
    with pytest.raises(ValueError, match="--limit 0: must be positive"):
        LinearSettings(limit=0.0).check()


# -- selection, files, picture ---------------------------------------------------------------------------------


def test_problems_are_selected_by_name_or_by_set():
    assert len(select([])) == 24
    assert not {"breast_cancer", "generated"} & {problem.data for problem in select([])}
    names = [problem.name for problem in select(["reuters_hinge_C10", "a9a"])]
    assert names == [
        "a9a_hinge_C0.1",
        "a9a_hinge_C10",
        "a9a_squared_hinge_C0.1",
        "a9a_squared_hinge_C10",
        "reuters_hinge_C10",
    ]
    with pytest.raises(ValueError, match=r"there is no problem 'a9a_hinge'; choose among a9a_hinge_C0\.1"):
        select(["a9a_hinge"])
    assert [problem.name for problem in select(["generated", "mnist"]) if problem.seeded] == ["mnist_hinge_C10"]
    assert {problem.file for problem in select(["generated", "mnist"])} == {"", "mnist"}
    assert select_peers(["sgd", "scikit-learn"]) == ("scikit-learn", "sgd")


def report(**changes):
    settings = replace(LinearSettings(repeat=1, gap=None, peers=("scikit-learn",)), **changes)
    return Report(describe_machine(), describe_versions("linear"), asdict(settings), kind="linear"), settings


def made_up():
    theirs = Runs("scikit-learn", "float32", {"tol": 1e-4}, [3.0], [1e-3], warning="failed")
    ours = Runs(OURS, "float32", {"gap_tol": 1e-3}, [1.0], [1e-14], certified=[1e-30], solver="dcd")
    return LinearResult(
        "generated_hinge_C10",
        "hinge C=10",
        10,
        5,
        default=[Comparison(theirs, ours)],
        precision="float32",
        nonzeros=20,
        reference={"dual": 1.0, "gap": 1e-10, "seconds": 2.0},
        spread=[ours],
        history={"float32": [(0.5, 1e-2), (1.0, 1e-30)]},
    )


def test_results_are_written_and_read_back(tmp_path):
    before, _ = report()
    before.problems = [made_up()]
    write_report(before, tmp_path / "linear.json")
    assert read_report(tmp_path / "linear.json", "linear").problems == before.problems
    with pytest.raises(ValueError, match="is not a file that this version's 'dualgap bench kernel --json' wrote"):
        read_report(tmp_path / "linear.json")


def test_results_are_resumed(tmp_path, monkeypatch):
    from dualgap.bench import linear

    monkeypatch.setattr(linear, "run_problem", lambda problem, settings, tell: replace(made_up(), name=problem.name))
    first, settings = report()
    asked = select(["breast_cancer"])
    run_all(asked[:2], first, settings, file=tmp_path / "linear.json")
    again, _ = report()
    ran = []
    run_all(asked, again, settings, file=tmp_path / "linear.json", resume=True, done=lambda one: ran.append(one.name))
    assert ran == [problem.name for problem in asked[2:]]
    other, settings = report(seeds=5)
    with pytest.raises(ValueError, match="was made with seeds 0, and this is 5"):
        run_all(asked, other, settings, file=tmp_path / "linear.json", resume=True)


def test_the_plot_is_drawn_and_what_is_exact_stays_in_sight(tmp_path):
    pytest.importorskip("matplotlib")
    before, _ = report()
    before.problems = [made_up()]
    plot.save_plot(before, tmp_path / "linear.png")
    assert (tmp_path / "linear.png").read_bytes().startswith(b"\x89PNG")
    assert plot._least_gap(before.problems, None) == 1e-13


def test_threads_are_told():
    whole, _ = report(threads=4, peers=PEERS)
    whole.versions = dict.fromkeys(whole.versions, "1.0")
    assert linear_tables.thread_line(whole) == (
        "dualgap 4 (its dcd 1), snapml-threads 4, scikit-learn, liblinear, sgd, skglm, snapml 1"
    )

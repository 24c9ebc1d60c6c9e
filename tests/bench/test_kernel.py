"""The run of a comparison, with fits in this process and times that are made up."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
import pytest

from dualgap.bench import kernel, plot, tables
from dualgap.bench.contest import Contest
from dualgap.bench.floor import entry_nanoseconds, floor
from dualgap.bench.kernel import Settings, run_all, run_problem
from dualgap.bench.libraries import LIBRARIES, Assignment
from dualgap.bench.machine import describe_machine, describe_versions
from dualgap.bench.packages import OURS
from dualgap.bench.problems import PROBLEMS
from dualgap.bench.results import Comparison, ProblemResult, Report, Runs, best_peer, read_report, write_report
from dualgap.bench.samples import write_samples
from dualgap.bench.worker import Answer, OverLimitError, Worker, WorkerError

SECONDS = {OURS: 2.0, "scikit-learn": 10.0, "intelex": 4.0, "libsvm": 6.0}
PROBLEM = PROBLEMS["breast_cancer"]


class InProcess:
    """A worker without a process, by a clock of its own."""

    warm_up = 0.5
    log: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, assignment):
        self.name, self.precision = assignment.library, assignment.precision
        X = np.load(assignment.folder / f"X.{assignment.precision}.npy")
        y = np.load(assignment.folder / "y.npy")
        self.ready = LIBRARIES[self.name].prepare(X, y, assignment.machine, assignment.cache_size)

    def fit(self, goal, limit):
        self.log.append((self.name, self.precision))
        if SECONDS[self.name] > limit:
            raise OverLimitError(f"over the limit of {limit:g} s")
        fit = self.ready(goal)
        return Answer(fit.read(fit.run()), SECONDS[self.name], 1000, peak=7_000_000)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def empty_log():
    InProcess.log.clear()


def installed(*names):
    missing = [name for name in names if LIBRARIES[name].absence("c_svc")]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")


def report(**changes):
    settings = replace(Settings(repeat=1, gap=None), **changes)
    return Report(describe_machine(), describe_versions(), asdict(settings)), settings


def test_everybody_is_compared_at_the_gap_the_peer_reached():
    installed("intelex", "libsvm")
    result = run_problem(PROBLEM, Settings(repeat=2, gap=1e-4, memory=True), launch=InProcess)
    assert (result.n, result.d) == (569, 30)
    assert [(c.peer.library, c.peer.precision) for c in result.default] == [
        ("scikit-learn", "float64"),
        ("intelex", "float64"),
        ("libsvm", "float64"),
        ("intelex", "float32"),
    ]
    for c in result.default:
        assert c.peer.goal == {"tol": 1e-3}
        assert c.ours.precision == c.peer.precision
        assert c.ours.gap <= c.peer.gap
        assert c.ours.goal["gap_tol"] <= 0.98 * c.peer.gap
        assert c.ratio == SECONDS[c.peer.library] / SECONDS[OURS]
        assert len(c.peer.times) == len(c.peer.gaps) == 2
    for c in result.tight:
        if not c.peer.reason:
            assert c.peer.gap <= 1e-4
        assert c.ours.gap <= 1e-4
    assert best_peer(result.default, "float64").peer.library == "intelex"
    assert result.memory == {"float64": 1000, "float32": 1000}
    assert result.warm_up["dualgap float32"] == 0.5
    assert result.history["float64"][-1][1] <= 1e-4
    assert result.floor == pytest.approx(result.headline().entries * result.entry_nanoseconds * 1e-9)


def test_a_peer_and_dualgap_take_turns():
    run_problem(PROBLEM, Settings(repeat=3, gap=None, peers=("scikit-learn",)), launch=InProcess)
    assert InProcess.log == [("scikit-learn", "float64"), (OURS, "float64")] * 3


def test_a_peer_that_is_missing_or_too_slow_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setitem(LIBRARIES, "intelex", replace(LIBRARIES["intelex"], module="no_such_module"))
    monkeypatch.setitem(LIBRARIES, "libsvm", replace(LIBRARIES["libsvm"], rows=frozenset()))
    result = run_problem(PROBLEM, Settings(repeat=1, gap=1e-3, limit=5.0), launch=InProcess)
    reasons = {(c.peer.library, c.peer.precision): c.peer.reason for c in result.default}
    assert reasons[("scikit-learn", "float64")] == "over the limit of 5 s"
    assert reasons[("libsvm", "float64")] == "has no c_svc"
    assert reasons[("intelex", "float32")].startswith("not installed; pip install 'dualgap[bench]'")
    assert [c.ratio for c in result.default] == [None] * 4
    assert {c.peer.library: c.peer.reason for c in result.tight}["libsvm"] == "has no c_svc"
    # dualgap still runs, by itself.
    assert all(c.ours.seconds == SECONDS[OURS] for c in result.default)
    assert tables.means([result], "default") == []
    notes = tables.Footnotes()
    tables.comparison_table([result], "default", notes)
    assert "[1] scikit-learn: over the limit of 5 s" in notes.lines()


class SlowWhenTight(InProcess):
    """scikit-learn takes a hundred seconds at any tolerance but its default."""

    def fit(self, goal, limit):
        answer = super().fit(goal, limit)
        if goal.get("tol", 1e-3) < 1e-3:
            if limit < 100.0:
                raise OverLimitError(f"over the limit of {limit:g} s")
            return replace(answer, seconds=100.0)
        return answer


def test_a_peer_is_ended_at_the_cap_and_its_ratio_is_a_bound():
    settings = Settings(repeat=1, gap=1e-6, cap=8.0, peers=("scikit-learn",))
    result = run_problem(PROBLEM, settings, launch=SlowWhenTight)
    (default,), (tight,) = result.default, result.tight
    # The cap is for the common gap only.
    assert default.ratio == SECONDS["scikit-learn"] / SECONDS[OURS]
    assert default.at_least is None
    assert tight.ratio is None
    assert tight.peer.stopped == 8.0 * SECONDS[OURS]
    assert tight.at_least == 8.0
    assert tables.ratio_text(tight) == ">8x"
    assert (tables.bound_text(5.89), tables.bound_text(19.99)) == ("5.8", "19")  # a bound is not rounded up
    assert tight.peer.reason.startswith("not there after 16 s, at tol=")
    # A looser tolerance was tried before it was given up.
    assert InProcess.log.count(("scikit-learn", "float64")) == 3
    wide = run_problem(PROBLEM, replace(settings, cap=80.0), launch=SlowWhenTight)
    assert wide.tight[0].ratio == 50.0


def test_a_peer_always_gets_the_least_seconds_whatever_the_cap():
    settings = Settings(repeat=1, gap=1e-6, cap=8.0, least=50.0, peers=("scikit-learn",))
    (tight,) = run_problem(PROBLEM, settings, launch=SlowWhenTight).tight
    assert tight.peer.stopped == 50.0
    assert tight.at_least == 50.0 / SECONDS[OURS]


def test_a_peer_over_the_limit_at_its_default_tolerance_is_over_it_at_a_common_gap():
    settings = Settings(repeat=1, gap=1e-3, limit=5.0, peers=("scikit-learn",))
    result = run_problem(PROBLEM, settings, launch=InProcess)
    (default,), (tight,) = result.default, result.tight
    # What gap its default tolerance leads to is not known, so that there is nothing to compare at it.
    assert default.at_least is None
    assert tight.at_least == 5.0 / SECONDS[OURS]


def test_a_peer_beyond_the_cap_at_its_default_tolerance_is_not_run_at_tighter_ones():
    settings = Settings(repeat=1, gap=1e-6, cap=3.0, peers=("scikit-learn",))
    (tight,) = run_problem(PROBLEM, settings, launch=InProcess).tight
    assert InProcess.log.count(("scikit-learn", "float64")) == 1
    assert tight.peer.stopped == SECONDS["scikit-learn"]
    assert tight.at_least == 5.0


def test_slow_peers_may_be_left_at_one_fit():
    settings = Settings(repeat=3, gap=None, brief=5.0, peers=("scikit-learn",))
    (comparison,) = run_problem(PROBLEM, settings, launch=InProcess).default
    assert len(comparison.peer.times) == 1
    assert len(comparison.ours.times) == 3


def test_a_problem_about_memory_has_a_cache_of_its_own():
    seen = []

    def launch(assignment):
        seen.append(assignment.cache_size)
        return InProcess(assignment)

    problem = replace(PROBLEM, cache_size=100.0)
    result = run_problem(problem, Settings(repeat=1, gap=None, peers=("scikit-learn",)), launch=launch)
    assert set(seen) == {100.0}
    table = tables.memory_table([result])
    assert list(table.columns[2].cells) == [OURS, "scikit-learn"]
    assert list(table.columns[3].cells) == ["7 MB", "7 MB"]
    assert tables.memory_table([replace(result, memory={})]) is None
    mnist = PROBLEMS["mnist-60k-100mb"]
    assert (mnist.cache_size, mnist.C, mnist.gamma, mnist.usual) == (100.0, 10.0, 0.02, False)


def test_our_goal_is_halved_until_the_judge_agrees():
    class Recorder:
        def __init__(self):
            self.asked = []

        def fit(self, runs):
            gap_tol = runs.goal["gap_tol"]
            self.asked.append(gap_tol)
            runs.times.append(1.0)
            runs.gaps.append(3.0 * gap_tol)

    contest = Recorder()
    runs = Contest.reach(contest, "float32", 1.0, 0.9)
    assert contest.asked == [0.9, 0.45, 0.225]
    assert runs.gap == pytest.approx(0.675)


# -- processes -------------------------------------------------------------------------------------------------


@pytest.fixture
def assignment(tmp_path):
    X, y = PROBLEM.read()
    write_samples(tmp_path, X, y, ("float64",))
    return Assignment("scikit-learn", "float64", PROBLEM.machine(*X.shape), tmp_path, 100.0, 1)


def test_a_process_fits_and_can_be_ended(assignment):
    worker = Worker(assignment)
    answer = worker.fit({"tol": 1e-3}, 60.0)
    assert answer.seconds > 0.0
    assert worker.warm_up > 0.0
    with pytest.raises(WorkerError, match="tol"):
        worker.fit({"tol": -1.0}, 60.0)
    with pytest.raises(OverLimitError, match="over the limit of 0 s") as ended:
        worker.fit({"tol": 1e-3}, 0.0)
    if sys.platform == "linux":
        # It cannot tell itself any more.
        assert ended.value.peak > 10_000_000
        assert answer.peak > 10_000_000
    assert not worker._process.is_alive()
    worker.close()


# -- results ---------------------------------------------------------------------------------------------------


def runs(library, seconds, precision="float64", gap=1e-4):
    return Runs(library, precision, {"tol": 1e-3}, [seconds], [gap], support=5)


def result(name, *ratios, extra=False):
    """A problem in which dualgap takes a second, by the ratio of each peer."""
    comparisons = [Comparison(runs(library, ratio, p), runs(OURS, 1.0, p)) for library, p, ratio in ratios]
    return ProblemResult(name, "c_svc", 10, 2, extra=extra, default=comparisons, tight=comparisons[:1])


def test_geometric_means_go_over_the_best_peer_and_over_scikit_learn():
    both = [
        result("a", ("scikit-learn", "float64", 8.0), ("libsvm", "float64", 2.0), ("intelex", "float32", 3.0)),
        result("b", ("scikit-learn", "float64", 2.0), ("libsvm", "float64", 4.5)),
    ]
    found = {(mean.over, mean.precision): (mean.value, mean.count) for mean in tables.means(both, "default")}
    assert found == {
        ("the best peer", "float64"): (pytest.approx(2.0), 2),
        ("the best peer", "float32"): (pytest.approx(3.0), 1),
        ("scikit-learn", "float64"): (pytest.approx(4.0), 2),
    }
    assert tables.geometric_mean([1.0, 4.0, 16.0]) == pytest.approx(4.0)


def test_the_median_counts_and_the_smallest_gap():
    many = Runs(OURS, "float64", {}, [3.0, 1.0, 2.0], [2e-4, 1e-4, 3e-4])
    assert many.seconds == 2.0
    assert many.gap == 1e-4
    many.reason = "died"
    assert many.seconds is None


def test_floor_without_a_cost_is_unknown():
    assert floor(1_000_000, None) is None
    assert floor(1_000_000, 2.0) == pytest.approx(2e-3)
    assert entry_nanoseconds(np.eye(50), 1.0) > 0.0


def test_results_are_written_and_read_back(tmp_path):
    whole, _ = report()
    whole.problems = [result("a", ("libsvm", "float64", 2.0)), result("b", ("scikit-learn", "float64", 1.5))]
    whole.problems[0].history = {"float64": [(0.1, 1.0), (0.2, 1e-4)]}
    write_report(whole, tmp_path / "bench.json")
    again = read_report(tmp_path / "bench.json")
    assert again.problems == whole.problems
    assert (again.machine, again.versions) == (whole.machine, whole.versions)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json: is not a file that"):
        read_report(tmp_path / "other.json")


def test_results_survive_an_interrupt_and_are_resumed(tmp_path, monkeypatch):
    file, ran = tmp_path / "bench.json", []

    def measured(problem, settings, tell):
        ran.append(problem.name)
        if problem.name == "cpusmall" and len(ran) < 3:
            raise KeyboardInterrupt
        return result(problem.name, ("scikit-learn", "float64", 2.0))

    monkeypatch.setattr(kernel, "run_problem", measured)
    problems = [PROBLEMS["a9a"], PROBLEMS["cpusmall"], PROBLEMS["breast_cancer"]]
    first, settings = report()
    with pytest.raises(KeyboardInterrupt):
        run_all(problems, first, settings, file=file)
    assert [entry["name"] for entry in json.loads(file.read_text())["problems"]] == ["a9a"]
    again, _ = report()
    run_all(problems, again, settings, file=file, resume=True)
    assert ran == ["a9a", "cpusmall", "cpusmall", "breast_cancer"]
    assert [one.name for one in read_report(file).problems] == ["a9a", "cpusmall", "breast_cancer"]
    other, settings = report(repeat=5)
    with pytest.raises(ValueError, match=r"was made with repeat 1, and this is 5"):
        run_all(problems, other, settings, file=file, resume=True)


def test_no_problem_is_begun_after_the_deadline(tmp_path, monkeypatch):
    file = tmp_path / "bench.json"
    monkeypatch.setattr(kernel, "run_problem", lambda problem, settings, tell: result(problem.name))
    whole, settings = report()
    problems = [PROBLEMS["a9a"], PROBLEMS["cpusmall"]]
    run_all(problems, whole, settings, file=file, deadline=time.monotonic() - 1.0)
    assert (whole.problems, whole.left_out) == ([], ["a9a", "cpusmall"])
    assert read_report(file).left_out == ["a9a", "cpusmall"]
    run_all(problems, whole, settings, file=file, resume=True, deadline=time.monotonic() + 60.0)
    assert [one.name for one in read_report(file).problems] == ["a9a", "cpusmall"]
    assert read_report(file).left_out == []


def test_versions_tell_two_states_of_the_source_apart():
    versions = describe_versions()
    assert versions["dualgap source"] == describe_versions()["dualgap source"]
    assert versions["numpy"] == np.__version__


def test_the_plot_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    whole, _ = report()
    whole.problems = [result(name, ("libsvm", "float64", 2.0), ("intelex", "float32", 3.0)) for name in "ab"]
    whole.problems[0].history = {"float64": [(0.1, 1.0), (0.2, 1e-4)], "float32": [(0.3, 1e-4)]}
    plot.save_plot(whole, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    for name in ("one.svg", "two.svg"):
        plot.save_plot(whole, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "two.svg").read_bytes()
    assert b"dc:date" not in drawn
    whole.problems = []
    plot.save_plot(whole, tmp_path / "empty.svg")
    assert (tmp_path / "empty.svg").read_bytes().startswith(b"<?xml")


def test_a_plot_that_cannot_be_drawn_is_refused_at_once(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"must end in \.png"):
        plot.check_plot(tmp_path / "bench.doc")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'dualgap\[report\]'"):
        plot.check_plot(tmp_path / "bench.png")

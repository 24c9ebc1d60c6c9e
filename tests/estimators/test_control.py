"""Long fits: warm starts, checkpoints, interrupts, callbacks and what `verbose` shows, for every estimator."""

import io
import signal
import warnings

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap.checkpoint import CheckpointError
from dualgap.estimators.progress import Display, bar, short_time
from dualgap.result import Event, Status

WINE, CULTIVAR = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(400, 2))
LABELS = (POINTS[:, 0] + 0.6 * RNG.normal(size=400) > 0).astype(int)
TARGET = np.sin(2 * POINTS[:, 0]) + 0.2 * RNG.normal(size=400)

GOAL = {"gap_tol": 1e-7}
# name: (estimator, targets), each with more than a few events on its way
ESTIMATORS = {
    "SVC": (dualgap.SVC(C=50, gamma=2.0, solver="smo", **GOAL), LABELS),
    "NuSVC": (dualgap.NuSVC(nu=0.5, gamma=5.0, solver="smo", **GOAL), LABELS),
    "SVR": (dualgap.SVR(C=50, gamma=2.0, epsilon=0.05, solver="smo", **GOAL), TARGET),
    "NuSVR": (dualgap.NuSVR(C=50, gamma=2.0, nu=0.3, solver="smo", **GOAL), TARGET),
    "OneClassSVM": (dualgap.OneClassSVM(nu=0.3, gamma=2.0, solver="smo", **GOAL), None),
    "SVDD": (dualgap.SVDD(C=0.02, gamma=2.0, solver="smo", **GOAL), None),
    "LinearSVC": (dualgap.LinearSVC(loss="hinge", C=100, solver="dcd", max_iter=-1, **GOAL), LABELS),
    "LinearSVC l1": (dualgap.LinearSVC(penalty="l1", loss="hinge", C=0.3, **GOAL), LABELS),
    "LinearSVC crammer_singer": (dualgap.LinearSVC(multi_class="crammer_singer", C=10, **GOAL), LABELS),
    "LinearSVR": (dualgap.LinearSVR(C=10, epsilon=0.05, solver="newton", **GOAL), TARGET),
    "LinearOneClassSVM": (dualgap.LinearOneClassSVM(nu=0.3, solver="newton", **GOAL), None),
    "LinearSVDD": (dualgap.LinearSVDD(C=0.02, solver="newton", **GOAL), None),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def made(name, **parameters):
    model, target = ESTIMATORS[name]
    points = POINTS + 3.0 if name == "LinearOneClassSVM" else POINTS
    if name == "LinearSVC l1":
        points = np.hstack([POINTS, np.random.default_rng(1).normal(size=(400, 400))])
    return clone(model).set_params(**parameters), points, target


class Pressed:
    """A callback that presses Ctrl-C at one event, and keeps all of them."""

    def __init__(self, at):
        self.at, self.events = at, []

    def __call__(self, event):
        self.events.append(event)
        if len(self.events) == self.at:
            signal.raise_signal(signal.SIGINT)


# -- warm starts -------------------------------------------------------------------------------------------------------

REFITS = {
    "SVC": {"C": 60.0},
    "NuSVC": {"nu": 0.52},
    "SVR": {"C": 60.0},
    "NuSVR": {"C": 55.0},
    "OneClassSVM": {"nu": 0.32},
    "SVDD": {"C": 0.022},
}


@pytest.mark.parametrize("name", REFITS)
@pytest.mark.parametrize("solver", ["smo", "block"])
def test_a_warm_start_takes_fewer_steps_to_the_same_solution(name, solver):
    def refitted(gap_tol):
        model, points, target = made(name, warm_start=True, solver=solver, gap_tol=gap_tol)
        model.fit(points, target).set_params(**REFITS[name]).fit(points, target)
        return model, clone(model).fit(points, target), points, target

    # Where pair steps begin decides how many lead to a fair solution; the last digits take as many from anywhere.
    model, cold, *_ = refitted(1e-4)
    assert np.sum(model.n_iter_) < 0.75 * np.sum(cold.n_iter_)
    model, cold, points, target = refitted(1e-7)
    assert model.certificate_.relative_gap <= 1e-7
    assert model.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=2e-7)
    np.testing.assert_allclose(
        model.decision_function(points) if target is not TARGET else model.predict(points),
        cold.decision_function(points) if target is not TARGET else cold.predict(points),
        atol=2e-3,
    )


def test_a_warm_start_with_another_kernel_width_and_many_classes():
    model = dualgap.SVC(warm_start=True, gamma=0.05, C=5, **GOAL).fit(WINE, CULTIVAR)
    model.set_params(gamma=0.055).fit(WINE, CULTIVAR)
    cold = clone(model).fit(WINE, CULTIVAR)
    assert model.n_iter_.shape == (3,)
    assert model.n_iter_.sum() < cold.n_iter_.sum()
    assert model.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=2e-7)


@pytest.mark.parametrize(
    "other",
    [(WINE[:-1], CULTIVAR[:-1]), (WINE[:, :5], CULTIVAR), (WINE, CULTIVAR + 1), (WINE, np.minimum(CULTIVAR, 1))],
    ids=["rows", "columns", "classes", "fewer classes"],
)
def test_other_data_start_cold(other):
    model = dualgap.SVC(warm_start=True, **GOAL).fit(WINE, CULTIVAR).fit(*other)
    cold = dualgap.SVC(**GOAL).fit(*other)
    np.testing.assert_array_equal(model.n_iter_, cold.n_iter_)
    np.testing.assert_array_equal(model.dual_coef_, cold.dual_coef_)


def test_without_it_nothing_is_kept():
    model = dualgap.SVC(warm_start=True).fit(WINE, CULTIVAR)
    assert hasattr(model, "_kept")
    assert not hasattr(model.set_params(warm_start=False).fit(WINE, CULTIVAR), "_kept")


# -- checkpoints -------------------------------------------------------------------------------------------------------


@each_estimator
def test_a_fit_goes_on_from_its_checkpoint(name, tmp_path):
    path = tmp_path / "run.ckpt"
    whole, points, target = made(name)
    whole.fit(points, target)
    at = max(1, min(3, len(whole.history_) - 1))
    model, *_ = made(name, checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=Pressed(at)).fit(points, target)
    assert path.exists()
    model.set_params(callback=None).fit(points, target)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-7
    assert model.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2e-7)
    assert np.all(np.diff(model.history_.column("seconds")) >= 0)
    assert len(model.history_) > at
    # A finished fit is there at once, and proved again.
    again, *_ = made(name, checkpoint=path)
    again.fit(points, target)
    assert again.certificate_.relative_gap <= 1e-7
    assert again.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2e-7)


def test_finished_tasks_are_not_solved_again(tmp_path):
    X, y = load_digits(n_class=5, return_X_y=True)
    settings = {"C": 5, "gap_tol": 1e-6, "solver": "smo", "checkpoint": tmp_path / "run.ckpt"}
    whole = Pressed(at=0)
    reference = dualgap.SVC(**{**settings, "checkpoint": None}, callback=whole).fit(X, y)
    begins = [k for k, event in enumerate(whole.events) if k == 0 or event.iteration < whole.events[k - 1].iteration]
    assert len(begins) == 10
    with pytest.raises(KeyboardInterrupt):
        dualgap.SVC(**settings, callback=Pressed(at=begins[6] + 2)).fit(X, y)
    rest = Pressed(at=0)
    model = dualgap.SVC(**settings, callback=rest).fit(X, y)
    assert len(rest.events) <= len(whole.events) - begins[6] + 2
    assert len(rest.events) >= len(whole.events) - begins[7]
    np.testing.assert_array_equal(model.n_iter_[:6], reference.n_iter_[:6])
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    assert model.certificate_.dual == pytest.approx(reference.certificate_.dual, rel=2e-6)
    assert len(model.history_) == 10


def test_tasks_on_several_threads_share_a_checkpoint(tmp_path):
    X, y = load_digits(n_class=6, return_X_y=True)
    settings = {"gap_tol": 1e-4, "n_jobs": 3, "solver": "block"}
    model = dualgap.SVC(checkpoint=tmp_path / "run.ckpt", **settings).fit(X, y)
    again = dualgap.SVC(checkpoint=tmp_path / "run.ckpt", **settings).fit(X, y)
    plain = dualgap.SVC(**settings).fit(X, y)
    for other in (again, plain):
        np.testing.assert_array_equal(model.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(model.n_iter_, other.n_iter_)


@pytest.mark.parametrize(
    "change",
    [{"C": 2.0}, {"gamma": 0.5}, {"kernel": "laplacian"}, {"class_weight": "balanced"}, {"multi_class": "ovr"}],
    ids=lambda change: next(iter(change)),
)
def test_other_parameters_are_refused(change, tmp_path):
    model = dualgap.SVC(checkpoint=str(tmp_path / "run.ckpt")).fit(WINE, CULTIVAR)
    old = model.dual_coef_.copy()
    with pytest.raises(CheckpointError, match=r"run\.ckpt'.*; delete the file to start anew, or name another"):
        model.set_params(**change).fit(WINE, CULTIVAR)
    np.testing.assert_array_equal(model.dual_coef_, old)  # the fit before is still there


def test_parameters_that_say_how_may_change(tmp_path):
    model = dualgap.SVC(checkpoint=tmp_path / "run.ckpt", gap_tol=1e-2).fit(WINE, CULTIVAR)
    model.set_params(gap_tol=1e-8, solver="smo", n_jobs=1, cache_size=10, verbose=0, time_limit=100.0)
    assert model.fit(WINE, CULTIVAR).certificate_.relative_gap <= 1e-8


@pytest.mark.parametrize("what", ["y", "weight"])
def test_other_data_are_refused(what, tmp_path):
    model = dualgap.SVR(checkpoint=tmp_path / "run.ckpt").fit(POINTS, TARGET)
    y, weight = TARGET.copy(), np.ones(400)
    (y if what == "y" else weight)[5] += 0.5
    with pytest.raises(CheckpointError, match="other data"):
        model.fit(POINTS, y, sample_weight=weight)


# -- interrupts --------------------------------------------------------------------------------------------------------


def state(model):
    return {key: id(value) for key, value in vars(model).items()}


@each_estimator
@pytest.mark.parametrize("fitted", [False, True], ids=["unfitted", "fitted"])
def test_an_interrupt_that_is_raised_leaves_the_estimator_as_it_was(name, fitted):
    model, points, target = made(name, callback=Pressed(at=10**9 if fitted else 1))
    if fitted:
        model.fit(points, target)
        model.callback.at = len(model.callback.events) + 1
    before = state(model)
    with pytest.raises(KeyboardInterrupt):
        model.fit(points, target)
    assert state(model) == before
    if fitted:
        model.predict(points)
    else:
        with pytest.raises(NotFittedError):
            model.predict(points)


@each_estimator
def test_an_interrupt_can_keep_the_best_solution(name):
    model, points, target = made(name, callback=Pressed(at=1), on_interrupt="keep")
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(points, target)
    assert model.status_ is Status.INTERRUPTED
    assert model.fit_status_ == 1
    assert model.certificate_.infeasibility <= 1e-10
    assert model.certificate_.relative_gap > 1e-7
    assert model.predict(points).shape == (400,)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_among_many_tasks_keeps_those_that_are_solved():
    X, y = load_digits(n_class=5, return_X_y=True)
    model = dualgap.SVC(gap_tol=1e-6, solver="smo", callback=Pressed(at=40), on_interrupt="keep")
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(X, y)
    gaps = np.array([certificate.relative_gap for certificate in model.certificates_])
    assert gaps[0] <= 1e-6
    assert gaps[-1] > 0.1
    assert model.decision_function(X).shape == (len(y), 5)


def test_errors_leave_the_estimator_as_it_was():
    model = dualgap.SVC().fit(WINE, CULTIVAR)
    before = state(model)
    for bad in (WINE[:10], np.where(WINE > 2, np.nan, WINE)):
        with pytest.raises(ValueError):
            model.fit(bad, CULTIVAR)
        assert state(model) == before


@pytest.mark.parametrize("wrong", [{"on_interrupt": "ignore"}, {"checkpoint": 3}, {"warm_start": "yes"}])
@pytest.mark.parametrize("kind", [dualgap.SVC, dualgap.LinearSVC, dualgap.SVDD])
def test_parameters_are_checked(kind, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kind(**wrong).fit(WINE, np.minimum(CULTIVAR, 1))


# -- callbacks ---------------------------------------------------------------------------------------------------------


@each_estimator
def test_callbacks_see_the_gap_fall_and_can_stop(name):
    seen = Pressed(at=0)
    model, points, target = made(name, callback=seen)
    model.fit(points, target)
    assert len(seen.events) == len(model.history_) > 0
    last = seen.events[-1]
    assert last.relative_gap <= 1e-5
    assert last.primal >= last.dual - 1e-9 * abs(last.dual)
    assert last.n_support > 0
    assert last.iteration > 0
    assert last.seconds > 0.0
    model, *_ = made(name, callback=lambda event: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(points, target).status_ is Status.STOPPED


def test_scikit_learns_callbacks_are_called():
    pytest.importorskip("sklearn.callback", reason="this version of scikit-learn has no callbacks")

    class Recorder:
        def __init__(self, stop_at=10**9):
            self.calls, self.stop_at = [], stop_at

        def setup(self, estimator, context):
            self.calls.append("setup")

        def on_fit_task_begin(self, estimator, context):
            self.calls.append(("begin", context.task_name, context.max_subtasks))

        def on_fit_task_end(self, estimator, context):
            self.calls.append(("end", context.task_name))
            return self.calls.count(("end", "step")) >= self.stop_at

        def teardown(self, estimator, context):
            self.calls.append("teardown")

    recorder = Recorder()
    model = dualgap.SVC(gap_tol=1e-6).set_callbacks(recorder).fit(WINE, CULTIVAR)
    assert recorder.calls[:3] == ["setup", ("begin", "fit", 3), ("begin", "task 1", 100)]
    assert recorder.calls[-2:] == [("end", "fit"), "teardown"]
    assert 0 < recorder.calls.count(("end", "step")) <= 300
    assert model.status_ is Status.CONVERGED
    stopped = dualgap.SVC(gap_tol=1e-9, solver="smo", C=50, gamma=2.0).set_callbacks(Recorder(stop_at=5))
    assert stopped.fit(POINTS, LABELS).status_ is Status.STOPPED


# -- what is shown -----------------------------------------------------------------------------------------------------


def event(seconds, gap, violation=1.0):
    return Event(int(1000 * seconds), seconds, 1.0, 1.0 - gap, gap, violation, 12, 0, 0, 0, 0, 0)


def display(verbose=1, *, terminal=True, width=130, **goal):
    shown = Display("SVC", verbose, goal.get("tol", 1e-3), goal.get("gap_tol"))
    shown.console = Console(file=io.StringIO(), force_terminal=terminal, width=width, highlight=False)
    return shown


def test_the_line_shows_gap_goal_and_time_left():
    shown = display(gap_tol=1e-6)
    for second in range(11):
        shown.add(0, event(float(second), 10.0 ** (-0.3 * second)))
    line = shown.line().plain
    assert "gap 1.0e-03 to 1e-6" in line
    assert " 50%" in line
    assert "10 s left" in line
    assert "10,000 iterations" in line
    assert "12 SV" in line
    assert len(line) < 130
    assert line.count("━") == 12
    shown.close("converged")
    assert "converged" in shown.console.file.getvalue()


def test_the_line_says_what_is_not_known():
    shown = display(gap_tol=1e-6, width=80)
    shown.expect(3)
    shown.add(1, event(0.0, float("nan")))
    assert "gap ?" in shown.line().plain
    assert "? left" in shown.line().plain
    assert "task 2 of 3" in shown.line().plain
    for second in range(20):
        shown.add(1, event(float(second), 0.5))
    assert "? left" in shown.line().plain  # it does not fall
    shown.close(None)


def test_without_a_gap_to_reach_the_violation_is_shown():
    shown = display(tol=1e-3)
    shown.add(0, event(1.0, 0.5, violation=1e-2))
    assert "violation 1.0e-02 to 1e-3" in shown.line().plain
    assert "gap 5.0e-01" in shown.line().plain


def test_a_goal_that_was_only_believed_to_be_reached_is_not_shown_as_reached():
    shown = display(gap_tol=1e-6)
    for gap in (1.0, 1e-7, 1e-3):
        shown.add(0, event(1.0, gap))
    assert shown.course.fraction == pytest.approx(0.5)


def test_bars_and_times():
    assert [part.count("━") + part.count("╸") for part in bar(0.5, 10)] == [5, 0]
    assert bar(None, 4) == ("", "────")
    assert bar(1.0, 4) == ("━━━━", "")
    assert bar(2.0, 4) == ("━━━━", "")
    assert [short_time(s) for s in (0.4, 59.4, 61, 3601)] == ["0 s", "59 s", "1:01", "1:00:01"]


def test_a_log_has_a_line_every_few_seconds_and_one_at_the_end(capsys, monkeypatch):
    dualgap.SVC(C=50, gamma=2.0, solver="smo", verbose=True, **GOAL).fit(POINTS, LABELS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 4
    assert lines[-1].startswith("[dualgap] SVC: converged, relative gap")
    monkeypatch.setattr("dualgap.estimators.progress._INTERVAL", 0.0)
    model = dualgap.SVC(C=50, gamma=2.0, solver="smo", verbose=True, **GOAL).fit(POINTS, LABELS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.history_) + 1


@each_estimator
def test_verbose_2_prints_a_line_an_event(name, capsys):
    model, points, target = made(name, verbose=2)
    model.fit(points, target)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.history_) + 1
    assert all(line.startswith(f"[dualgap] {type(model).__name__}") for line in lines)


def test_nothing_is_shown_unasked(capsys):
    dualgap.SVC().fit(WINE, CULTIVAR)
    assert capsys.readouterr() == ("", "")


# -- saved models ------------------------------------------------------------------------------------------------------


def test_a_saved_model_knows_of_no_checkpoint(tmp_path):
    model = dualgap.SVC(checkpoint=tmp_path / "run.ckpt", on_interrupt="keep", warm_start=True).fit(WINE, CULTIVAR)
    dualgap.save(model, tmp_path / "model.dualgap")
    back = dualgap.load(tmp_path / "model.dualgap")
    assert back.checkpoint is None
    assert back.on_interrupt == "keep"
    np.testing.assert_array_equal(back.predict(WINE), model.predict(WINE))

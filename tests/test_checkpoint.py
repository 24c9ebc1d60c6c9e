"""Checkpoints: whatever happens to a run, the old file or the new one is there, and the next run goes on from it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numba as nb
import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.event import Listener, install_listener

import dualgap
from dualgap import atomic
from dualgap.checkpoint import Checkpoint, CheckpointError, CheckpointWarning, State
from dualgap.fingerprint import fingerprint, problem_fingerprint
from dualgap.interrupts import Interrupts
from dualgap.l1svm import solve_l1_svm
from dualgap.result import Event, History, Status

HERE = Path(__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=300) > 0, 1.0, -1.0)


def problem(gamma=1.0, points=X, y=Y, **parameters):
    gram = dualgap.make_gram(points, dualgap.Kernel("rbf", gamma=gamma))
    return dualgap.build("c_svc", gram, y, **{"C": 100.0, **parameters})


def stop_after(events):
    """A callback during which Ctrl-C is pressed."""
    seen = []

    def callback(event):
        seen.append(event)
        if len(seen) == events:
            signal.raise_signal(signal.SIGINT)

    return callback


def interrupted(path, solver="smo", **settings):
    with pytest.raises(KeyboardInterrupt):
        dualgap.solve(problem(), solver, gap_tol=1e-8, checkpoint=path, callback=stop_after(4), **settings)


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "block", "mpd", "ipm", "rosen", "decomposition"])
def test_a_run_goes_on_from_where_it_was_interrupted(solver, tmp_path):
    path = tmp_path / "run.ckpt"
    interrupted(path, solver)
    before = Checkpoint(path, problem_fingerprint(problem())).slot(0).earlier
    result = dualgap.solve(problem(), solver, gap_tol=1e-8, checkpoint=path)
    cold = dualgap.solve(problem(), solver, gap_tol=1e-8)
    assert result.status is cold.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(cold.certificate.dual, rel=2e-8)
    # The history is one: as many events as before at its head, and time and steps never fall.
    assert repr(result.history.events[: len(before.history)]) == repr(before.history.events)  # NaN equals nothing
    for column in ("seconds", "iteration"):
        assert np.all(np.diff(result.history.column(column)) >= 0)
    assert result.seconds > before.seconds
    assert result.iterations >= before.counts[0]


def test_a_finished_run_is_proved_again_and_not_solved_again(tmp_path):
    path = tmp_path / "run.ckpt"
    first = dualgap.solve(problem(), gap_tol=1e-6, checkpoint=path)
    seen = []
    again = dualgap.solve(problem(), gap_tol=1e-6, checkpoint=path, callback=seen.append)
    assert seen == []
    assert again.status is Status.CONVERGED
    assert again.iterations == first.iterations
    np.testing.assert_array_equal(again.a, first.a)
    assert again.certificate.relative_gap <= 1e-6


def test_a_tighter_goal_or_another_solver_goes_on_from_a_finished_run(tmp_path):
    path = tmp_path / "run.ckpt"
    loose = dualgap.solve(problem(), "smo", gap_tol=1e-2, checkpoint=path)
    tight = dualgap.solve(problem(), "block", gap_tol=1e-8, checkpoint=path)
    assert tight.status is Status.CONVERGED
    assert tight.certificate.relative_gap <= 1e-8
    assert tight.iterations > loose.iterations
    assert tight.history[0] == loose.history[0]


def test_limits_are_those_of_a_call(tmp_path):
    path = tmp_path / "run.ckpt"
    for done in (200, 400, 600):
        result = dualgap.solve(problem(), "smo", gap_tol=1e-10, max_iter=200, warn=False, checkpoint=path)
        assert result.status is Status.MAX_ITER
        assert result.iterations == done


def test_a_solution_that_the_file_only_claims_is_not_believed(tmp_path):
    path = tmp_path / "run.ckpt"
    mine = problem()
    claim = State(np.zeros(mine.n), status="CONVERGED", key=problem_fingerprint(mine, data=False))
    file = Checkpoint(path, problem_fingerprint(mine))
    file.keep(0, claim)
    file.finish()
    result = dualgap.solve(mine, gap_tol=1e-6, checkpoint=path)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-6
    assert result.iterations > 0


# -- the wrong file ----------------------------------------------------------------------------------------------------

CHANGED = {
    "C": lambda: problem(C=101.0),
    "gamma": lambda: problem(gamma=1.1),
    "a label": lambda: problem(y=np.where(np.arange(300) == 7, -Y, Y)),
    "a number": lambda: problem(points=X + 1e-15 * (np.arange(600).reshape(300, 2) == 5) * X),
    "single precision": lambda: problem(points=X.astype(np.float32)),
    "a weight": lambda: problem(sample_weight=np.where(np.arange(300) == 3, 2.0, 1.0)),
    "fewer rows": lambda: problem(points=X[:-1], y=Y[:-1]),
}


@pytest.mark.parametrize("what", CHANGED)
def test_another_problem_is_refused_and_the_file_left_alone(what, tmp_path):
    path = tmp_path / "run.ckpt"
    dualgap.solve(problem(), checkpoint=path)
    content = path.read_bytes()
    if what == "a number":
        assert not np.array_equal(X, CHANGED[what]().gram.source.points.original)
    with pytest.raises(ValueError, match=r"run\.ckpt'.*other data or with other parameters; delete .* or name another"):
        dualgap.solve(CHANGED[what](), checkpoint=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"1,2,3\n4,5,6\n", b"\x10" + bytes(7) + b'{"__metadata__":'])
def test_a_file_that_is_none_of_ours_is_refused_and_left_alone(content, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"data\.csv' cannot be read .*; delete the file .* name another"):
        dualgap.solve(problem(), checkpoint=path)
    assert path.read_bytes() == content


def test_every_damaged_file_is_refused(tmp_path):
    path, mine = tmp_path / "run.ckpt", problem_fingerprint(problem())
    dualgap.solve(problem(), "smo", max_iter=10, warn=False, checkpoint=path)
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 40).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            Checkpoint(path, mine)


def test_a_place_where_nothing_can_be_written_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        dualgap.solve(problem(), checkpoint=tmp_path / "nowhere" / "run.ckpt")
    with pytest.raises(IsADirectoryError, match="name a file in it"):
        dualgap.solve(problem(), checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("setting", "match"),
    [({"on_interrupt": "ignore"}, "'raise' or 'keep'"), ({"checkpoint_every": -1.0}, "checkpoint_every must be")],
)
def test_settings_are_checked(setting, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        dualgap.solve(problem(), checkpoint=tmp_path / "run.ckpt", **setting)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_the_file_is_read_by_safetensors_and_holds_no_code(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    dualgap.solve(problem(), checkpoint=tmp_path / "run.ckpt")
    arrays = numpy.load_file(tmp_path / "run.ckpt")
    assert set(arrays) == {"0.point", "0.counts", "0.history"}
    assert arrays["0.point"].shape == (300,)


def test_states_come_back_as_they_were(tmp_path):
    event = Event(10**12, 0.5, np.pi, -1.0, np.nan, np.inf, 3, 4, 5, 6, 7, 8)
    counts = np.arange(6)
    state = State(np.arange(4.0), counts, 1.25, History([event, event]), "MAX_ITER", "key")
    Checkpoint(tmp_path / "a", "mine").keep(3, state)
    back = Checkpoint(tmp_path / "a", "mine").slot(3).earlier
    np.testing.assert_array_equal(back.point, state.point)
    np.testing.assert_array_equal(back.counts, counts)
    assert (back.seconds, back.status, back.key) == (1.25, "MAX_ITER", "key")
    assert repr(back.history) == repr(state.history)
    assert Checkpoint(tmp_path / "a", "mine").slot(0).earlier is None


def test_writing_takes_a_fiftieth_of_the_time_at_most(tmp_path, monkeypatch):
    file = Checkpoint(tmp_path / "a", "mine", every=0.0)

    def slow(*_):
        time.sleep(0.01)

    monkeypatch.setattr("dualgap.checkpoint.write_tensors", slow)
    assert file.due()
    began = time.perf_counter()
    file.keep(0, State(np.zeros(1)))
    assert not file.due()
    while not file.due():
        time.sleep(0.01)
    assert time.perf_counter() - began >= 0.5


def test_a_full_disk_keeps_the_old_file_and_the_fit_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    dualgap.solve(problem(), "smo", gap_tol=1e-2, checkpoint=path)
    content = path.read_bytes()
    write, fail = os.fsync, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full(descriptor):
        raise fail

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.warns(CheckpointWarning, match="No space left on device") as caught:
        result = dualgap.solve(problem(), "smo", gap_tol=1e-6, checkpoint=path, checkpoint_every=0.0)
    assert result.status is Status.CONVERGED
    assert len(caught) == 1
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["run.ckpt"]
    monkeypatch.setattr(atomic.os, "fsync", write)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dualgap.solve(problem(), "smo", gap_tol=1e-6, checkpoint=path)
    assert path.read_bytes() != content


def script(name, folder, *before):
    command = [*before, sys.executable, str(HERE / name), str(folder)]
    # Warm Numba caches and the same sources as this process.
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_file_system_that_fills_up(tmp_path):
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("a mount namespace of one's own (unshare -rm) is not permitted here")
    told = script("full_disk.py", tmp_path, "unshare", "-rm")
    if "skipped" in told:
        pytest.skip(told["skipped"])
    assert told["status"] == told["again"] == "CONVERGED"
    assert len(told["warnings"]) == 1
    assert "No space left on device" in told["warnings"][0]
    assert told["files"] == ["ballast", "run.ckpt"]  # no temporary file is left
    assert told["size"] >= told["first"] > 0
    assert told["events"][1] > 0


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    return script("killed_runs.py", tmp_path_factory.mktemp("killed"))


def test_kills_at_any_moment_leave_a_file_to_go_on_from(ends):
    told = ends["killed"]
    assert told["codes"] == [-signal.SIGKILL] * 60
    assert told["absent"] + len(told["iterations"]) == 61  # absent, or read without an error
    assert np.all(np.diff(told["iterations"]) >= 0)
    assert told["iterations"][-1] > 0
    assert told["left_at_the_end"] == 0
    assert told["status"] == "CONVERGED"
    assert told["dual"] == pytest.approx(ends["cold"], rel=2e-4)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", -signal.SIGTERM)])
def test_signals_are_answered_within_a_second_and_after_writing(ends, name, code):
    told = ends[name]
    assert told["code"] == code
    assert told["took"] < 1.0
    assert told["iterations"] > 0


# -- interrupts --------------------------------------------------------------------------------------------------------


def test_handlers_are_put_back():
    def mine(number, frame):
        raise AssertionError("not now")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        signal.signal(signal.SIGTERM, mine)
        with Interrupts(keyboard=True, termination=True) as interrupts:
            assert signal.getsignal(signal.SIGTERM) == interrupts.note
            signal.raise_signal(signal.SIGINT)
            assert interrupts.pending
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)  # the second one is not patient
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is before[signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_termination_is_sent_again_to_the_handler_before():
    got = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        with Interrupts(termination=True) as interrupts:
            signal.raise_signal(signal.SIGTERM)
            assert interrupts.pending
            assert got == []
        assert got == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_and_ignored_signals_are_left_alone():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Interrupts(termination=True):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        seen = []

        def other():
            with Interrupts(keyboard=True):
                seen.append(signal.getsignal(signal.SIGINT))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen == [signal.default_int_handler]
    finally:
        signal.signal(signal.SIGTERM, before)


class CtrlC(Listener):
    """Ctrl-C in the middle of each of this process's compilations."""

    def on_start(self, event):
        signal.raise_signal(signal.SIGINT)

    def on_end(self, event):
        pass


@pytest.mark.parametrize("keyboard", [False, True])
def test_an_interrupt_waits_for_the_end_of_a_compilation(keyboard):
    @nb.njit
    def inner(x):
        return 2.0 * x

    @nb.njit
    def compiled(x):
        return inner(x) + 1.0

    def interrupted():
        with Interrupts(keyboard=keyboard) as interrupts:
            if keyboard:
                signal.raise_signal(signal.SIGINT)  # the first is noted, and the second raises
                assert interrupts.pending
            compiled(1.0)

    with install_listener("numba:compile", CtrlC()), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(compiled.signatures) == len(inner.signatures) == 1
    assert compiled(1.0) == 3.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("run", ["solve", "minimize", "l1"])
def test_no_call_is_left_with_a_function_half_compiled(run):
    """Each of the public doors; what is compiled within is the callback's."""

    @nb.njit
    def compiled(x):
        return x + 1.0

    def callback(_):
        with install_listener("numba:compile", CtrlC()):
            compiled(1.0)

    X, y = np.eye(6)[:, :4], np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    calls = {
        "solve": lambda: dualgap.solve(
            dualgap.build("c_svc", dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=1.0)), y), callback=callback
        ),
        "minimize": lambda: dualgap.minimize({"name": "logistic", "y": y}, X, "l2", callback=callback),
        "l1": lambda: solve_l1_svm(X, y, callback=callback),
    }
    with pytest.raises(KeyboardInterrupt):
        calls[run]()
    assert len(compiled.signatures) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("solver", ["smo", "block", "ipm"])
def test_an_interrupted_run_can_be_kept(solver):
    with pytest.warns(dualgap.NotCertifiedWarning, match="it was interrupted"):
        result = dualgap.solve(problem(), solver, gap_tol=1e-10, on_interrupt="keep", callback=stop_after(3))
    assert result.status is Status.INTERRUPTED
    certificate, _ = dualgap.certify(problem(), result.a)
    assert certificate == result.certificate
    assert certificate.infeasibility <= 1e-12
    assert 1e-10 < certificate.relative_gap < np.inf


def test_an_interrupt_within_the_callback_counts_as_well(tmp_path):
    def callback(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dualgap.solve(problem(), "smo", checkpoint=tmp_path / "a", callback=callback)
    assert (tmp_path / "a").exists()
    with pytest.warns(dualgap.NotCertifiedWarning):
        assert dualgap.solve(problem(), on_interrupt="keep", callback=callback).status is Status.INTERRUPTED


# -- fingerprints ------------------------------------------------------------------------------------------------------


def test_fingerprints_tell_things_apart():
    rows = sp.random(20, 5, density=0.3, format="csr", random_state=0)
    other = rows.copy()
    other.data[3] += 1e-15
    things = [
        X,
        X.T,
        X.astype(np.float32),
        X[:-1],
        rows,
        other,
        rows.toarray(),
        "X",
        ["X"],
        ["X", ""],
        1,
        1.0,
        True,
        None,
        {"a": 1},
        {"a": 2},
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        np.array(["a", "c"], dtype=object),
        len,
        max,
        [],
        np.empty((0, 3)),
    ]
    assert len({fingerprint(thing) for thing in things}) == len(things)
    assert fingerprint(X) == fingerprint(np.asfortranarray(X)) == fingerprint(X[::-1].copy()[::-1])
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


GRAMS = {
    "kept": lambda X: dualgap.make_gram(X, dualgap.Kernel("rbf"), kind="cached"),
    "full": lambda X: dualgap.make_gram(X, dualgap.Kernel("rbf")),
    "precomputed": lambda X: dualgap.FullGram(X @ X.T),
    "linear": dualgap.factored_gram,
}


@pytest.mark.parametrize("kind", GRAMS)
def test_fingerprints_see_the_data_of_every_gram_matrix(kind):
    def of(points):
        return problem_fingerprint(dualgap.build("c_svc", GRAMS[kind](points), Y))

    changed = X.copy()
    changed[17, 1] *= 1.0 + 1e-9
    assert of(X) == of(X.copy()) != of(changed)

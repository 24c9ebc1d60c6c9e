"""``dualgap train --checkpoint --on-interrupt``: what a run leaves behind, and how the next one goes on."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import dualgap
from dualgap.cli import app
from dualgap.estimators.session import Session

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=300) > 0, 1, -1)


@pytest.fixture
def data(tmp_path):
    np.savez(tmp_path / "data.npz", X=X, y=Y)
    return tmp_path / "data.npz"


@pytest.fixture
def pressed(monkeypatch):
    """Ctrl-C at the third event of a fit."""
    original = Session.callback

    def callback(self, number):
        own, seen = original(self, number), []

        def report(event):
            seen.append(event)
            if len(seen) == 3:
                signal.raise_signal(signal.SIGINT)
            return own(event)

        return report

    monkeypatch.setattr(Session, "callback", callback)
    return monkeypatch


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done


def test_an_interrupted_run_exits_with_130_and_the_same_command_goes_on(data, tmp_path, pressed):
    model, file = tmp_path / "model", tmp_path / "run.ckpt"
    command = ("train", data, "-C", 100, "--gap-tol", 1e-7, "--solver", "smo", "-o", model, "--checkpoint", file)
    assert run(*command, code=130).stderr == "interrupted\n"
    assert file.exists()
    assert not model.exists()
    pressed.undo()
    run(*command)
    fitted = dualgap.load(model)
    assert fitted.certificate_.relative_gap <= 1e-7
    plain = dualgap.SVC(C=100, gap_tol=1e-7, solver="smo").fit(X, Y)
    assert fitted.certificate_.dual == pytest.approx(plain.certificate_.dual, rel=2e-7)
    assert fitted.n_iter_.sum() != plain.n_iter_.sum()  # it has not started again


def test_the_best_model_can_be_kept(data, tmp_path, pressed):
    model, file = tmp_path / "model", tmp_path / "run.ckpt"
    keep = ("--on-interrupt", "keep", "--checkpoint", file)
    done = run("train", data, "-C", 100, "--gap-tol", 1e-7, "--solver", "smo", "-o", model, *keep)
    assert "interrupted: the best model so far is in" in done.stderr
    assert f"the same command goes on from {file}" in done.stderr
    fitted = dualgap.load(model)
    assert fitted.status_.name == "INTERRUPTED"
    assert 1e-7 < fitted.certificate_.relative_gap < np.inf


def test_a_checkpoint_of_another_run_is_a_mistake_in_the_command(data, tmp_path):
    file = tmp_path / "run.ckpt"
    run("train", data, "--checkpoint", file)
    done = run("train", data, "-C", 2, "--checkpoint", file, code=2)
    assert "delete the file to start anew, or name another one" in done.stderr
    assert "is named twice" in run("train", data, "-o", file, "--checkpoint", file, code=2).stderr
    assert "--on-interrupt" in run("train", data, "--on-interrupt", "perhaps", code=2).output


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_on_a_real_process_writes_the_model(tmp_path):
    data, model = tmp_path / "noise.npz", tmp_path / "model"
    rng = np.random.default_rng(0)
    np.savez(data, X=rng.normal(size=(20_000, 20)), y=rng.choice([-1.0, 1.0], 20_000))  # minutes of work
    command = [sys.executable, "-m", "dualgap", "train", str(data), "-C", "1e5", "--gap-tol", "1e-12", "-o", str(model)]
    process = subprocess.Popen(
        [*command, "--on-interrupt", "keep", "--checkpoint", str(tmp_path / "run.ckpt")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A parent in the background has the signal ignored, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert "20,000 samples" in process.stdout.readline()
        time.sleep(5.0)  # loading compiled code comes next; the signal is to hit the training
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "interrupted: the best model so far is in" in errors
    assert dualgap.load(model).status_.name == "INTERRUPTED"
    assert (tmp_path / "run.ckpt").exists()

"""The command line: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import dualgap
from dualgap.cli import app, choices, output, progress
from dualgap.cli.scores import number
from dualgap.datasets import Dataset
from dualgap.kernels.functions import NAMES
from dualgap.result import Certificate, Event

sys.path.insert(0, str(Path(__file__).parents[1]))
from processor import processor_seconds

FORMULATIONS = ["c_svc", "nu_svc", "eps_svr", "nu_svr", "one_class", "svdd"]
runner = CliRunner()
# The package has the command itself under the name of its module.
train_module = importlib.import_module("dualgap.cli.train")


def run(*arguments, code=0):
    """Run a command in this process; the exit status must be `code`."""
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    if code == 2:
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
    return result


def samples(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3)).round(3)
    return X, np.where(X[:, 0] + X[:, 1] > 0, 1, -1)


def write_libsvm(path, X, y):
    rows = [
        " ".join([str(label), *(f"{column}:{value}" for column, value in enumerate(row, 1) if value)])
        for row, label in zip(X, y, strict=True)
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


def write_csv(path, X, y=None, names=("a", "b", "c"), label="kind"):
    rows = [",".join([*names, *([label] if y is not None else [])])]
    for position, row in enumerate(X):
        rows.append(",".join([*map(str, row), *([str(y[position])] if y is not None else [])]))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def data(tmp_path):
    return write_libsvm(tmp_path / "data.svm", *samples())


@pytest.fixture
def model(tmp_path, data):
    path = tmp_path / "model.dualgap"
    run("train", data, "-o", path, "-q")
    return path


# -- the program itself ----------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from dualgap.cli import main\n"
        "sys.argv[1:] = ['train', '--help']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "assert not {'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "--gap-tol" in finished.stdout


def test_version_and_help():
    assert run("--version").stdout == f"dualgap {dualgap.__version__}\n"
    assert run("-V").stdout == run("--version").stdout
    for arguments in ([], ["-h"], ["--help"]):
        shown = run(*arguments).stdout
        assert all(command in shown for command in ("demo", "train", "predict", "info", "solvers"))
    assert run().stdout.split() == run("--help").stdout.split()


def test_the_module_runs_as_a_program():
    finished = subprocess.run([sys.executable, "-m", "dualgap", "trian"], capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: No such command 'trian'.")
    assert len(finished.stderr.splitlines()) == 1
    assert finished.stdout == ""


def test_the_choices_are_those_of_the_library():
    assert {kernel.value for kernel in choices.KernelName} == set(NAMES) == set(choices.KERNEL_READS)
    assert [formulation.value for formulation in choices.FormulationName] == FORMULATIONS
    for row, name in choices.ESTIMATOR_OF.items():
        assert getattr(dualgap, name)._row == row


# -- train -----------------------------------------------------------------------------------------------------


def test_train_says_what_it_did_and_writes_the_model(tmp_path, data):
    target, page = tmp_path / "model.dualgap", tmp_path / "report.html"
    result = run("train", data, "-C", 10, "--gap-tol", 1e-6, "-o", target, "--report", page)
    shown = result.stdout
    assert result.stderr == ""
    assert "data.svm: 60 samples, 3 features, float64" in shown
    assert "classification into 2 classes (2 distinct labels, all integers; --task chooses another)" in shown
    assert "c_svc with C 10; kernel rbf with gamma" in shown
    assert "of the best possible objective (relative duality gap)" in shown
    assert re.search(r"\d+ of 60 samples \(\d+\.\d%\) are support vectors", shown)
    assert "accuracy" in shown
    loaded = dualgap.load(target)
    assert loaded.certificate_.relative_gap <= 1e-6
    assert loaded.C == 10
    assert loaded.score(*samples()) > 0.9
    html = page.read_text()
    assert "SVC on data.svm" in html
    assert "of the best possible" in html
    assert sorted(os.listdir(tmp_path)) == ["data.svm", "model.dualgap", "report.html"]


def test_train_without_output_says_so(data):
    assert "name a file with -o" in run("train", data).stdout


def test_quiet_prints_nothing(tmp_path, data):
    result = run("train", data, "-q", "-o", tmp_path / "m", "--report", tmp_path / "r.html")
    assert result.output == ""


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_every_formulation_trains_and_predicts(tmp_path, data, formulation):
    target = tmp_path / "model"
    shown = run("train", data, "--formulation", formulation, "-o", target).stdout
    assert f"\nmodel        {formulation} with " in shown
    result = run("predict", target, data)
    assert len(result.stdout.splitlines()) == 60
    assert " on 60 samples" in result.stderr


def test_more_than_two_classes_name_the_worst_pair(tmp_path):
    X, _ = samples()
    data = write_libsvm(tmp_path / "three.svm", X, np.digitize(X[:, 0], [-0.5, 0.5]))
    shown = run("train", data).stdout
    assert "into 3 classes" in shown
    assert "over 3 pairs of classes" in shown
    assert re.search(r"worst of the 3 pairs: \d against \d, gap \d", shown)


def test_a_run_short_of_its_tolerance_still_writes_and_ends_with_3(tmp_path, data):
    target = tmp_path / "model"
    result = run("train", data, "--gap-tol", 1e-12, "--max-iter", 2, "-o", target, code=3)
    assert "ended short of its tolerance after 2 iterations" in result.stdout
    assert result.stderr.startswith("warning: the relative gap of 1e-12 asked for was not reached: ")
    assert "raise --max-iter" in result.stderr
    assert dualgap.load(target).status_ is dualgap.Status.MAX_ITER
    result = run("train", data, "--tol", 1e-9, "--max-iter", 2, "-q", code=3)
    assert result.output.startswith("warning: the KKT violation of 1e-09")


def test_an_indefinite_kernel_is_said_to_have_no_gap(data):
    shown = run("train", data, "-k", "sigmoid", "-g", 1, "--coef0", -1).stdout
    assert "no duality gap exists: the kernel matrix is indefinite" in shown


def test_a_table_with_names_and_text_labels(tmp_path):
    X, y = samples()
    words = np.where(y > 0, "oak", "ash")
    data = write_csv(tmp_path / "trees.csv", X, words)
    target = tmp_path / "trees.dualgap"
    shown = run("train", data, "-o", target, "--float32").stdout
    assert "3 features, float32" in shown
    assert "2 distinct labels, of text" in shown
    model = dualgap.load(target)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.support_vectors_.dtype == np.float32
    labelled = run("predict", target, data)
    assert set(labelled.stdout.split()) == {"oak", "ash"}
    assert labelled.stderr.startswith("accuracy ")
    bare = run("predict", target, write_csv(tmp_path / "bare.csv", X))
    assert bare.stdout == labelled.stdout
    assert bare.stderr == ""
    swapped = run("predict", target, write_csv(tmp_path / "swapped.csv", X, names=("a", "c", "b")), code=2)
    assert "feature 2 is 'c' where the model was trained on 'b'" in swapped.stderr


@pytest.mark.parametrize("column", ["0", "-4", "kind"])
def test_the_label_column_can_be_chosen(tmp_path, column):
    X, y = samples()
    rows = [f"{label},{a},{b},{c}" for (a, b, c), label in zip(X, y, strict=True)]
    data = tmp_path / "first.csv"
    data.write_text("kind,a,b,c\n" + "\n".join(rows) + "\n")
    shown = run("train", data, "--label-column", column, "--header").stdout
    assert "into 2 classes" in shown
    assert "outlier detection" in run("train", data, "--label-column", "none").stdout


def test_sparse_data_stays_sparse(tmp_path):
    X = np.zeros((40, 30))
    X[np.arange(40), np.arange(40) % 30] = 1.0
    data = write_libsvm(tmp_path / "sparse.svm", X, np.arange(40) % 2)
    target = tmp_path / "model"
    assert "sparse (3.33% nonzero)" in run("train", data, "-k", "linear", "-o", target).stdout
    assert run("predict", target, data).stderr.startswith("accuracy")


def test_a_precomputed_kernel(tmp_path):
    X, y = samples()
    data, target = tmp_path / "gram.npz", tmp_path / "model"
    np.savez(data, X=X @ X.T, y=y)
    run("train", data, "-k", "precomputed", "-o", target)
    assert len(run("predict", target, data).stdout.splitlines()) == 60


def test_features_of_uneven_range_get_a_hint(tmp_path):
    X, y = samples()
    assert "hint" in run("train", write_csv(tmp_path / "x.csv", X * [1, 1, 1e5], y)).stdout
    assert "hint" not in run("train", write_csv(tmp_path / "x.csv", X, y)).stdout


def test_scores_of_many_samples_are_computed_when_asked(data, monkeypatch):
    monkeypatch.setattr(train_module, "_SCORED_ROWS", 10)
    assert "not computed above 10 samples; --score does" in run("train", data).stdout
    assert "accuracy" in run("train", data, "--score").stdout
    assert "score" not in run("train", data, "--no-score").stdout


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.array(["a", "b"] * 5), "classification"),
        (np.array([-1.0, 1.0]), "classification"),
        (np.array([1.0, 2.0, 3.0] * 4), "classification"),
        (np.array([1.0, 2.0, 3.0, 4.0]), "regression"),
        (np.repeat(np.arange(26.0), 5), "classification"),
        (np.append(np.repeat(np.arange(26.0), 5), 26.0), "regression"),
        (np.repeat(np.arange(101.0), 9), "regression"),
        (np.array([0.5, 1.0] * 9), "regression"),
        (None, "outlier"),
    ],
)
def test_the_task_is_guessed_from_the_labels(y, task):
    assert choices._guess(Dataset(np.zeros((1, 1)), y, None, "some.csv"))[0] == task


# -- predict ---------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_model(tmp_path, data, model):
    X, y = samples()
    expected = dualgap.load(model)
    result = run("predict", model, data)
    assert result.stdout.split() == [number(label) for label in expected.predict(X)]
    assert result.stderr == f"accuracy {np.mean(expected.predict(X) == y):.6g} on 60 samples\n"
    target = tmp_path / "labels.txt"
    quiet = run("predict", model, data, "-o", target, "-q")
    assert quiet.output == ""
    assert target.read_text() == result.stdout
    values = run("predict", model, data, "--decision")
    assert [float(value) for value in values.stdout.split()] == expected.decision_function(X).tolist()
    assert values.stderr == ""


def test_decision_values_of_several_classes_share_a_line(tmp_path):
    X, _ = samples()
    data = write_libsvm(tmp_path / "three.svm", X, np.digitize(X[:, 0], [-0.5, 0.5]))
    run("train", data, "-o", tmp_path / "model")
    lines = run("predict", tmp_path / "model", data, "--decision").stdout.splitlines()
    assert all(len(line.split()) == 3 for line in lines)


def test_regression_is_scored_by_its_errors(tmp_path):
    X, _ = samples()
    data = write_csv(tmp_path / "r.csv", X, X[:, 0] * 2 + 0.25)
    shown = run("train", data, "-o", tmp_path / "m").stdout
    assert "regression (the labels are not all integers" in shown
    result = run("predict", tmp_path / "m", data)
    assert re.fullmatch(r"R2 0\.\d+ on 60 samples\nmean squared error \S+ on 60 samples\n", result.stderr)
    refused = run("predict", tmp_path / "m", data, "--decision", code=2)
    assert "has no decision function" in refused.stderr


def test_a_narrower_libsvm_file_is_padded_and_a_wider_one_refused(tmp_path, model):
    X, y = samples(10)
    X[:, 2] = 0.0
    narrow = run("predict", model, write_libsvm(tmp_path / "narrow.svm", X, y))
    assert narrow.stdout.split() == [number(label) for label in dualgap.load(model).predict(X)]
    wide = write_libsvm(tmp_path / "wide.svm", np.hstack([X, X + 1]), y)
    assert "has 6 features where the model was trained on 3" in run("predict", model, wide, code=2).stderr
    np.savez(tmp_path / "narrow.npz", X=X[:, :2], y=y)
    assert "has 2 features" in run("predict", model, tmp_path / "narrow.npz", code=2).stderr


def test_labels_of_another_kind_are_not_scored(tmp_path, model):
    X, y = samples()
    data = write_csv(tmp_path / "words.csv", X, np.where(y > 0, "oak", "ash"))
    assert run("predict", model, data).stderr == ""


def test_a_reader_that_leaves_early_causes_no_traceback(model, data):
    command = f"'{sys.executable}' -m dualgap predict '{model}' '{data}' -q | true"
    finished = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert finished.stderr == ""


# -- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train"], "Missing argument 'FILE'"),
        (["train", "missing.csv"], "no such file"),
        (["train", "DATA", "-C", "much"], "Invalid value for '-C'"),
        (["train", "DATA", "-C", "-1"], "'C' parameter of SVC must be"),
        (["train", "DATA", "-k", "cubic"], "'cubic' is not one of"),
        (["train", "DATA", "-g", "wide"], "--gamma wide"),
        (["train", "DATA", "-g", "-1"], "'gamma' parameter"),
        (["train", "DATA", "-k", "linear", "-g", "1"], "--gamma means nothing to --kernel linear"),
        (["train", "DATA", "--degree", "2"], "it is for poly"),
        (["train", "DATA", "--nu", "0.2"], "it is for --formulation nu_svc, nu_svr, one_class"),
        (["train", "DATA", "--task", "outlier", "-C", "1"], "-C means nothing to one_class"),
        (["train", "DATA", "--formulation", "nu_svc", "--nu", "1"], "infeasible"),
        (["train", "DATA", "--formulation", "svdd", "-C", "0.001"], "too small"),
        (["train", "DATA", "--formulation", "svdd", "--task", "regression"], "is for outlier"),
        (["train", "DATA", "--solver", "magic"], "magic"),
        (["train", "DATA", "--tol", "0"], "'tol' parameter"),
        (["train", "DATA", "--cache-size", "0"], "'cache_size' parameter"),
        (["train", "DATA", "-k", "chi2"], "Negative values"),
        (["train", "DATA", "-k", "precomputed"], "square matrix"),
        (["train", "DATA", "--label-column", "2"], "for csv files"),
        (["train", "DATA", "--no-such-option"], "No such option"),
        (["train", "DATA", "-o", "FOLDER/none/model"], "does not exist"),
        (["train", "DATA", "-o", "FOLDER"], "is a directory"),
        (["train", "DATA", "-o", "DATA"], "named twice"),
        (["train", "DATA", "-o", "FOLDER/x", "--report", "FOLDER/x"], "named twice"),
        (["train", "DATA", "-o", "/dev/null"], "a device"),
        (["train", "DATA", "--report", "FOLDER/none/page.html"], "does not exist"),
        (["train", "FOLDER"], "is a directory"),
        (["predict", "DATA", "DATA"], "save or copy the model again"),
        (["predict", "missing", "DATA"], "missing: No such file"),
        (["predict", "MODEL", "missing"], "no such file"),
        (["predict", "MODEL", "DATA", "-o", "MODEL"], "named twice"),
        (["predict", "MODEL", "DATA", "-o", "FOLDER/none/out"], "does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, data, model, arguments, words):
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    places = {"DATA": str(data), "MODEL": str(model)}
    filled = [places.get(part, part.replace("FOLDER", str(tmp_path))) for part in arguments]
    assert words in run(*filled, code=2).stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_bad_outputs_are_found_before_the_data_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(train_module, "_read", lambda *given: pytest.fail("the file was read"))
    run("train", "any.csv", "-o", tmp_path / "none" / "model", code=2)
    run("train", "any.csv", "--report", tmp_path / "none" / "page", code=2)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path, data):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "cannot write in" in run("train", data, "-o", closed / "model", code=2).stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n1,\n", "missing"), ("1 2:3\n1 1:4\n", "all samples have the label 1"), ("", "empty")],
)
def test_bad_data_is_one_line(tmp_path, text, words):
    path = tmp_path / ("x.csv" if "," in text else "x.svm")
    path.write_text(text)
    assert words in run("train", path, code=2).stderr


def test_labels_that_the_task_cannot_use(tmp_path):
    X, _ = samples()
    words = write_csv(tmp_path / "x.csv", X, np.array(["a", "b"] * 30))
    assert "labels are text" in run("train", words, "--task", "regression", code=2).stderr
    np.savez(tmp_path / "x.npz", X=X)
    assert "has no labels" in run("train", tmp_path / "x.npz", "--task", "regression", code=2).stderr


def test_a_bug_is_one_line_unless_debugging(data, monkeypatch):
    def broken(*given):
        raise RuntimeError("what\nnow")

    monkeypatch.setattr(train_module, "_read", broken)
    result = run("train", data, code=1)
    assert result.stderr.startswith("error: unexpected RuntimeError: what now; please report")
    debugged = runner.invoke(app, ["--debug", "train", str(data)])
    assert isinstance(debugged.exception, RuntimeError)


def test_debug_shows_the_traceback_of_a_mistake():
    assert isinstance(runner.invoke(app, ["--debug", "train", "missing.csv"]).exception, FileNotFoundError)


def test_lack_of_memory_is_a_mistake_to_be_mended(data, monkeypatch):
    def hungry(*given):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(train_module, "_fit", hungry)
    assert "not enough memory (Unable to allocate 9 TiB)" in run("train", data, code=2).stderr


# -- interruption ----------------------------------------------------------------------------------------------


def test_interrupting_ends_with_130(data, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "_fit", interrupted)
    assert run("train", data, code=130).stderr == "interrupted\n"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_a_long_run_at_once_and_leaves_no_file(tmp_path):
    rng = np.random.default_rng(0)
    data = tmp_path / "noise.npz"
    # Labels that are noise and a large C: minutes of work.
    np.savez(data, X=rng.normal(size=(40000, 20)), y=rng.choice([-1.0, 1.0], 40000))
    target = tmp_path / "model"
    command = [sys.executable, "-m", "dualgap", "train", str(data), "-C", "1000", "-o", str(target)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A parent in the background has the signal ignored, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert "40,000 samples" in process.stdout.readline()
        # Loading compiled code comes next; the signal is to hit the training.
        time.sleep(2.5)
        used = processor_seconds(process.pid)
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
    assert process.returncode == 130
    assert errors == "interrupted\n"
    assert usage.ru_utime + usage.ru_stime - used < 1.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["noise.npz"]


# -- progress --------------------------------------------------------------------------------------------------


def event(iteration=5, seconds=0.0, gap=1e-3):
    return Event(iteration, seconds, 1.0, 1.0, gap, 0.1, 1, 1, 0, 0, 0, 0)


def test_the_line_counts_tasks_by_their_clocks():
    shown = progress.Progress("training", tasks=3)
    began = time.perf_counter()
    for _ in range(2):
        time.sleep(0.01)
        shown.watch(event(seconds=time.perf_counter() - began))
    assert shown.task == 1
    shown.watch(event(iteration=12_345, seconds=0.0))
    assert shown.task == 2
    assert re.fullmatch(r"training  pair 2 of 3  gap 1\.0e-03  12,345 iterations  \S+ m?s", shown.line())
    shown.watch(event(gap=float("nan")))
    assert "violation 1.0e-01" in shown.line()


def test_the_line_appears_on_a_terminal_only(monkeypatch):
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    for terminal in (True, False):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=terminal, width=60)
        monkeypatch.setattr(progress, "Console", lambda console=console, **given: console)
        with progress.Progress("training") as shown:
            shown.watch(event())
            deadline = time.perf_counter() + 5.0
            while terminal and "gap 1.0e-03" not in screen.getvalue() and time.perf_counter() < deadline:
                time.sleep(0.01)
        assert ("training  gap 1.0e-03  5 iterations" in screen.getvalue()) == terminal
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


# -- words -----------------------------------------------------------------------------------------------------


def test_bounds_are_rounded_up():
    assert output.at_most(1.01e-6) == "1.1e-06"
    assert output.at_most(3.1e-6) == "3.1e-06"
    assert output.at_most(9.91e-6) == "1.0e-05"
    assert output.at_most(0.0) == "0.0e+00"
    assert output.at_most(float("nan")) == "an unknown amount"
    broken = Certificate(float("inf"), 1.0, float("inf"), float("inf"), 0.5, 0.0)
    assert output.verdict(broken).startswith("no bound")


def test_times_and_sizes_suit_their_units(tmp_path):
    assert [output.seconds(value) for value in (0.0123, 1.26, 12.34, 125.0)] == [
        "12.3 ms",
        "1.3 s",
        "12.3 s",
        "2 min 5 s",
    ]
    path = tmp_path / "file"
    path.write_bytes(bytes(1234))
    assert output.size(path) == "1.23 kB"


def test_facts_are_wrapped_on_a_terminal_only(monkeypatch, capsys):
    text = "word " * 40
    output.fact("label", text)
    assert len(capsys.readouterr().out.splitlines()) == 1
    screen = io.StringIO()
    monkeypatch.setattr(output, "standard", lambda: Console(file=screen, force_terminal=True, width=80))
    output.fact("label", text)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 80 for line in lines)
    assert all(line.startswith(" " * 13 + "word") for line in lines[1:])


# -- info, solvers, demo ---------------------------------------------------------------------------------------


def test_info_names_what_matters(monkeypatch, tmp_path):
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path))
    shown = run("info").stdout
    for word in ("dualgap", "python", "numpy", "scipy", "numba", "scikit-learn", "cores", "blas", "extras"):
        assert re.search(rf"^{word} +\S", shown, re.MULTILINE), word
    assert "workqueue" in shown
    assert f"DUALGAP_DATA is {tmp_path}\n" in shown
    assert "__pycache__" in shown or os.environ.get("NUMBA_CACHE_DIR", "\0") in shown
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path / "none"))
    assert "which does not exist" in run("info").stdout


def test_solvers_lists_options_and_answers():
    shown = run("solvers").stdout
    for name, module in dualgap.SOLVERS.items():
        assert f"{name} {module.__doc__.splitlines()[0]} options: " in " ".join(shown.split())
    assert "max_iter=-1" in shown
    own = re.split(r"\n\n(?=\S)", shown[shown.index("smo  ") :])[0]
    rows = {line.split()[0]: line.split()[1:] for line in own.splitlines() if line.startswith("  ")}
    assert rows["c_svc"][:3] == ["yes", "yes", "no"]
    assert rows["one_class"][:2] == ["yes", "no"]
    assert "coupled" in shown


def test_demo_compares_and_says_where_to_go():
    shown = run("demo").stdout
    assert "certificate  within" in shown
    rows = {line.split(",")[0] + line.split()[2]: line.split()[-1] for line in shown.splitlines() if " SVC, " in line}
    gaps = [float(gap) for gap in rows.values()]
    assert len(gaps) == 3
    assert gaps[-1] <= 1.1e-6 < gaps[0]
    assert "not timed" in shown
    assert "dualgap train" in shown


def test_demo_is_quick_once_compiled():
    resource = pytest.importorskip("resource")
    spent = []
    # A second time where the first has compiled, or had to share the machine.
    while len(spent) < 2 and min(spent, default=np.inf) >= 5.0:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, "-m", "dualgap", "demo"], stdout=subprocess.DEVNULL, check=True)
        spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    assert min(spent) < 5.0

"""svm-train and svm-predict: LIBSVM's own programs read our files and we read theirs, with the same answers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification, make_regression
from typer.testing import CliRunner

from dualgap.cli import app
from dualgap.cli.libsvm_options import (
    PREDICT_USAGE,
    TRAIN_USAGE,
    ParameterError,
    UsageError,
    read_predict_options,
    read_train_options,
)
from dualgap.cli.libsvm_words import regression_scores, run_command
from dualgap.cli.svm_predict import svm_predict
from dualgap.cli.svm_train import svm_train

SVM_TRAIN, SVM_PREDICT, SVM_GRID = (shutil.which(name) for name in ("svm-train", "svm-predict", "svm-grid"))
needs_libsvm = pytest.mark.skipif(
    SVM_TRAIN is None or SVM_PREDICT is None, reason="LIBSVM's svm-train and svm-predict are not installed"
)
KINDS = {0: "classes", 1: "classes", 2: "classes", 3: "values", 4: "values"}


def dump(path, X, y, kernel_rows=False):
    with path.open("w") as file:
        for number, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True), 1):
            serial = f" 0:{number}" if kernel_rows else ""
            cells = "".join(f" {j}:{value!r}" for j, value in enumerate(row, 1) if value or kernel_rows)
            file.write(f"{label:g}{serial}{cells}\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Training and test files: three classes in no order, two classes, and values to regress on."""
    folder = tmp_path_factory.mktemp("libsvm")
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    # Beside the origin: a linear one-class machine has no answer around it.
    X, y = (X[order] - X.mean(axis=0)) / X.std(axis=0) + 2.0, np.array([7, -2, 3])[y[order]]
    found = {"classes": (dump(folder / "classes", X[:100], y[:100]), dump(folder / "classes.t", X[100:], y[100:]))}
    X, y = make_classification(160, 6, n_informative=4, random_state=2)
    found["two"] = (dump(folder / "two", X[:110], 2 * y[:110] - 1), dump(folder / "two.t", X[110:], 2 * y[110:] - 1))
    X, y = make_regression(140, 4, noise=5.0, random_state=3)
    y = y / y.std()
    found["values"] = (dump(folder / "values", X[:100], y[:100]), dump(folder / "values.t", X[100:], y[100:]))
    return found


def ours(command, *words):
    """Run a command in this process; it has to succeed."""
    assert run_command(command, [str(word) for word in words], TRAIN_USAGE) == 0


def theirs(program, *words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True, timeout=60).stdout


# -- both ways ----------------------------------------------------------------------------------------------------


@needs_libsvm
@pytest.mark.parametrize("kernel", range(4))
@pytest.mark.parametrize("kind", range(5))
def test_models_of_ours_predict_the_same_there(files, tmp_path, capsys, kind, kernel):
    train, test = files[KINDS[kind]]
    gentle = ("-r", "0.5", "-g", "0.1", "-d", "2") if kernel in (1, 3) else ()
    ours(svm_train, "-s", kind, "-t", kernel, "-n", "0.3", "-q", *gentle, train, tmp_path / "model")
    assert capsys.readouterr().out == ""
    said = theirs(SVM_PREDICT, test, tmp_path / "model", tmp_path / "theirs")
    ours(svm_predict, test, tmp_path / "model", tmp_path / "ours")
    found, expected = np.loadtxt(tmp_path / "ours"), np.loadtxt(tmp_path / "theirs")
    if KINDS[kind] == "classes":
        np.testing.assert_array_equal(found, expected)
        assert capsys.readouterr().out == said
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        scores = re.findall(r"= (\S+) \(regression\)", capsys.readouterr().out)
        np.testing.assert_allclose(np.array(scores, float), np.array(re.findall(r"= (\S+) ", said), float), rtol=1e-5)


@needs_libsvm
@pytest.mark.parametrize("options", [("-s", "0"), ("-s", "1", "-n", "0.2"), ("-s", "3", "-t", "1", "-r", "1")])
@pytest.mark.parametrize("data", ["classes", "two", "values"])
def test_models_of_theirs_predict_the_same_here(files, tmp_path, capsys, options, data):
    train, test = files[data]
    if data == "values" and options[1] != "3":
        options = ("-s", "4", "-n", "0.4")
    theirs(SVM_TRAIN, *options, train, tmp_path / "model")
    said = theirs(SVM_PREDICT, test, tmp_path / "model", tmp_path / "theirs")
    ours(svm_predict, test, tmp_path / "model", tmp_path / "ours")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "ours"), np.loadtxt(tmp_path / "theirs"), rtol=1e-9, atol=1e-9)
    assert capsys.readouterr().out.split()[:2] == said.split()[:2]


@needs_libsvm
@pytest.mark.parametrize("data", ["classes", "two"])
@pytest.mark.parametrize("trainer", ["ours", "theirs"])
def test_probabilities_are_those_of_svm_predict(files, tmp_path, capsys, data, trainer):
    train, test = files[data]
    if trainer == "ours":
        ours(svm_train, "-b", "1", "-q", train, tmp_path / "model")
    else:
        theirs(SVM_TRAIN, "-b", "1", "-q", train, tmp_path / "model")
    theirs(SVM_PREDICT, "-b", "1", test, tmp_path / "model", tmp_path / "theirs")
    ours(svm_predict, "-b", "1", test, tmp_path / "model", tmp_path / "ours")
    found, expected = ((tmp_path / name).read_text().splitlines() for name in ("ours", "theirs"))
    assert found[0] == expected[0]
    assert found[0].startswith("labels ")
    one, two = np.loadtxt(found[1:]), np.loadtxt(expected[1:])
    # svm-predict couples pairs by a few iterations that stop at 0.005 / k.
    np.testing.assert_allclose(one[:, 1:], two[:, 1:], atol=5e-3)
    clear = np.sort(two[:, 1:], axis=1)[:, -1] - np.sort(two[:, 1:], axis=1)[:, -2] > 1e-2
    np.testing.assert_array_equal(one[clear, 0], two[clear, 0])
    capsys.readouterr()
    ours(svm_predict, test, tmp_path / "model", tmp_path / "ours")
    assert capsys.readouterr().out.startswith("Model supports probability estimates, but disabled in prediction.\n")


@needs_libsvm
def test_noise_of_a_regression_is_theirs_up_to_folds(files, tmp_path, capsys):
    train, test = files["values"]
    ours(svm_train, "-s", "3", "-b", "1", train, tmp_path / "ours.model")
    said = capsys.readouterr().out
    theirs(SVM_TRAIN, "-s", "3", "-b", "1", "-q", train, tmp_path / "theirs.model")
    sigmas = [
        float(re.search(r"probA (\S+)", (tmp_path / name).read_text()).group(1))
        for name in ("ours.model", "theirs.model")
    ]
    assert sigmas[0] == pytest.approx(sigmas[1], rel=0.15)
    assert f"sigma= {sigmas[0]:g}" in said
    ours(svm_predict, "-b", "1", test, tmp_path / "ours.model", tmp_path / "labels")
    mine = capsys.readouterr().out
    other = theirs(SVM_PREDICT, "-b", "1", test, tmp_path / "ours.model", tmp_path / "labels")
    assert mine.splitlines()[:2] == other.splitlines()[:2]


@needs_libsvm
def test_precomputed_kernels_whatever_the_order_of_their_rows(tmp_path, capsys):
    X, y = make_classification(60, 4, random_state=0)
    K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    rows = dump(tmp_path / "rows", K[:40, :40], y[:40], kernel_rows=True)
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join(lines[::-1][:35]))  # five samples are left out, the rest stands upside down
    dump(tmp_path / "rows.t", K[40:, :40], y[40:], kernel_rows=True)
    ours(svm_train, "-t", "4", "-q", rows, tmp_path / "model")
    theirs(SVM_TRAIN, "-t", "4", "-q", rows, tmp_path / "theirs.model")
    predictions = []
    for number, model in enumerate(("model", "theirs.model")):
        for program in (lambda *words: theirs(SVM_PREDICT, *words), lambda *words: ours(svm_predict, *words)):
            out = tmp_path / f"labels{number}"
            program(tmp_path / "rows.t", tmp_path / model, out)
            predictions.append(out.read_text())
    assert len(set(predictions)) == 1
    capsys.readouterr()
    ours(svm_train, "-t", "4", "-v", "4", "-q", rows)
    assert re.fullmatch(r"Cross Validation Accuracy = [\d.]+%\n", capsys.readouterr().out)


# -- what is printed ----------------------------------------------------------------------------------------------


@needs_libsvm
@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("data", ["two", "classes"])
def test_runs_are_told_in_the_same_numbers(files, tmp_path, capsys, kind, data):
    train = files["values" if kind > 2 else data][0]
    words = ("-s", kind, "-n", "0.3", "-e", "1e-6", train, tmp_path / "model")
    ours(svm_train, *words)
    said, other = capsys.readouterr().out, theirs(SVM_TRAIN, *words)
    for name in ("obj", "nu", "C", "epsilon", "nSV", "nBSV", "Total nSV"):
        pattern = rf"(?<!Total )(?<!\w){name} = ([-\d.]+)"
        # LIBSVM takes pairs of classes in the order in which the file has them.
        found, expected = (sorted(map(float, re.findall(pattern, text))) for text in (said, other))
        assert len(found) == len(expected), name
        # A variable that is at its bound to the last digits may be counted on either side of it.
        slack = 2 if "SV" in name else 2e-3
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=slack, err_msg=name)
    assert said.count("certified: relative gap") == said.count("optimization finished")


@needs_libsvm
@pytest.mark.parametrize("kind", range(5))
def test_cross_validation_is_theirs_up_to_folds(files, capsys, kind):
    train = files["values" if kind > 2 else "classes"][0]
    words = ("-s", kind, "-n", "0.3", "-v", "5", "-q", train)
    ours(svm_train, *words)
    said, other = capsys.readouterr().out, theirs(SVM_TRAIN, *words)
    number = r"= ([-\d.e+]+)"
    assert re.sub(number, "", said) == re.sub(number, "", other)
    found, expected = (np.array(re.findall(number, text), dtype=float) for text in (said, other))
    # Other folds: a few samples of the hundred.
    np.testing.assert_allclose(found, expected, atol=5.0 if kind < 3 else 0.12)


def test_cross_validation_by_probabilities(files, capsys):
    ours(svm_train, "-b", "1", "-v", "3", "-q", files["classes"][0])
    assert float(re.fullmatch(r"Cross Validation Accuracy = ([\d.]+)%\n", capsys.readouterr().out).group(1)) > 88


def test_cross_validation_is_the_same_every_time_and_says_how_good_it_is(files, capsys):
    ours(svm_train, "-v", "3", files["two"][0])
    first = capsys.readouterr().out
    ours(svm_train, "-v", "3", files["two"][0])
    assert capsys.readouterr().out == first
    assert first.count("certified: relative gap") == 3


def test_more_folds_than_samples_leave_one_out(tmp_path, capsys):
    train = dump(tmp_path / "few", np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([1, 1, 2, 2]))
    ours(svm_train, "-t", "0", "-c", "100", "-v", "10", "-q", train)
    said = capsys.readouterr()
    assert said.out == "Cross Validation Accuracy = 100%\n"
    assert said.err.startswith("WARNING: # folds > # data.")


def test_a_class_that_a_fold_holds_alone_is_not_fatal(tmp_path, capsys):
    X = np.array([[0.0], [0.2], [1.0], [1.2], [9.0]])
    ours(svm_train, "-v", "5", "-q", dump(tmp_path / "few", X, np.array([1, 1, 2, 2, 3])))
    assert "Cross Validation Accuracy = " in capsys.readouterr().out


def test_weights_of_classes_move_the_boundary(files, tmp_path, capsys):
    train, test = files["two"]
    counts = []
    for weight in ("1", "50"):
        ours(svm_train, "-w1", weight, "-w-1", "1", "-w9", "3", "-c", "0.1", "-q", train, tmp_path / "model")
        ours(svm_predict, "-q", test, tmp_path / "model", tmp_path / "labels")
        counts.append((tmp_path / "labels").read_text().split().count("1"))
    said = capsys.readouterr()
    assert counts[1] > counts[0]
    assert said.out == ""
    assert said.err.count("WARNING: class label 9 specified in weight is not found\n") == 2


def test_model_file_has_a_default_name_and_devices_are_written_to(files, tmp_path, monkeypatch):
    train, test = files["two"]
    monkeypatch.chdir(tmp_path)
    ours(svm_train, "-q", train)
    assert (tmp_path / "two.model").read_text().startswith("svm_type c_svc\n")
    ours(svm_predict, "-q", test, tmp_path / "two.model", "/dev/null")
    ours(svm_train, "-q", train, "/dev/null")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(("width", "model_width"), [(2, 4), (4, 2)])
def test_files_of_other_widths(tmp_path, width, model_width):
    """A file does not mention features that are zero in all of its samples."""
    X = np.random.default_rng(0).normal(size=(30, 4))
    y = np.where(X[:, 0] > 0, 1, -1)
    train = dump(tmp_path / "train", X[:20] * (np.arange(4) < model_width), y[:20])
    test = dump(tmp_path / "test", X[20:] * (np.arange(4) < width), y[20:])
    ours(svm_train, "-q", train, tmp_path / "model")
    ours(svm_predict, "-q", test, tmp_path / "model", tmp_path / "labels")
    assert len((tmp_path / "labels").read_text().split()) == 10


def test_scores_of_a_regression():
    assert regression_scores(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])) == pytest.approx((14 / 3, 1.0))
    assert np.isnan(regression_scores(np.ones(3), np.arange(3.0))[1])


# -- command lines ------------------------------------------------------------------------------------------------


def test_every_option_is_read():
    words = "-s 1 -t 1 -d 4 -g 0.25 -r -1.5 -c 8 -n 0.2 -p 0.3 -m 40 -e 1e-5 -h 0 -b 1 -w1 2.5 -w-3 4 -v 7 -q data out"
    options = read_train_options(words.split())
    assert (options.row, options.kernel, options.degree, options.gamma) == ("nu_svc", "poly", 4, 0.25)
    assert (options.coef0, options.C, options.nu, options.epsilon) == (-1.5, 8.0, 0.2, 0.3)
    assert (options.cache_size, options.tol, options.shrinking, options.probability) == (40.0, 1e-5, False, True)
    assert (options.weights, options.folds, options.quiet) == ({1: 2.5, -3: 4.0}, 7, True)
    assert (options.data, options.model) == (Path("data"), Path("out"))
    assert read_train_options(["-q", "folder/data"]).model == Path("data.model")
    other = read_predict_options(["-b", "1", "-q", "data", "model", "out"])
    assert (other.probability, other.quiet, other.output) == (True, True, Path("out"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-x 1 data", "Unknown option: -x"),
        ("-cc 1 data", "Unknown option: -cc"),
        ("--cost 1 data", "Unknown option: --cost"),
        ("-w 1 data", "Unknown option: -w"),
        ("-c", "-c needs a value"),
        ("-c ten data", "-c ten: not a number"),
        ("-g nan data", "-g nan: not a number"),
        ("-d 2.5 data", "-d 2.5: not a whole number"),
        ("-wx 1 data", "-wx x: not a whole number"),
        ("-h 2 data", "-h 2: must be 0 or 1"),
        ("-v 1 data", "n-fold cross validation: n must >= 2"),
        ("", "expected training_set_file [model_file] after the options; found nothing"),
        ("data model more", "expected training_set_file [model_file] after the options; found data model more"),
    ],
)
def test_command_lines_that_cannot_be_read_show_the_usage(words, message, capsys):
    with pytest.raises(UsageError, match=re.escape(message)):
        read_train_options(words.split())
    assert run_command(svm_train, words.split(), TRAIN_USAGE) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"{message}\n{TRAIN_USAGE}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-s 5", "unknown svm type"),
        ("-t 5", "unknown kernel type"),
        ("-g -1", "gamma < 0"),
        ("-t 1 -d -1", "degree of polynomial kernel < 0"),
        ("-m 0", "cache_size <= 0"),
        ("-e 0", "eps <= 0"),
        ("-c 0", "C <= 0"),
        ("-s 1 -n 0", "nu <= 0 or nu > 1"),
        ("-s 3 -p -1", "p < 0"),
        ("-s 2 -b 1", "one-class SVM probability output not supported yet"),
        ("-w1 -2", "weight of a class < 0"),
    ],
)
def test_values_out_of_range_are_named(words, message, capsys):
    with pytest.raises(ParameterError, match=re.escape(message)):
        read_train_options([*words.split(), "data"])
    assert run_command(svm_train, [*words.split(), "data"], TRAIN_USAGE) == 1
    assert capsys.readouterr().err == f"ERROR: {message}\n"


@pytest.mark.parametrize("words", ["", "a b", "a b c d", "-b 2 a b c", "-v 3 a b c"])
def test_predict_command_lines_that_cannot_be_read(words, capsys):
    assert run_command(svm_predict, words.split(), PREDICT_USAGE) == 1
    assert capsys.readouterr().err.endswith(PREDICT_USAGE)


@needs_libsvm
def test_usage_is_theirs():
    for program, usage in ((SVM_TRAIN, TRAIN_USAGE), (SVM_PREDICT, PREDICT_USAGE)):
        said = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
        assert said.returncode == 1
        # Later versions of LIBSVM word single lines otherwise.
        assert usage.splitlines()[0] == said.stdout.splitlines()[0]


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", "", "the file is empty"),
        ("# nobody\n", "", "no samples"),
        ("1 1:2\n-1 1:x\n", "", "line 2"),
        ("1 1:2\n1 1:3\n", "", "number of classes has to be greater than one"),
        ("1.5 1:2\n1 1:3\n", "", "class labels must be integers"),
        ("1 1:2\n1 1:3\n", "-t 4", "first column must be 0:sample_serial_number"),
        ("1 0:1 1:2 2:1\n-1 0:9 1:3 2:1\n", "-t 4", "sample_serial_number out of range"),
        ("1 0:1 1:2 2:1\n-1 0:2 1:3 2000000000:1\n", "-t 4", "lacks kernel values"),
        ("1 1:2\n1 1:3\n1 1:5\n1 1:4\n-1 1:4\n", "-s 1 -n 0.9", "specified nu is infeasible"),
    ],
)
def test_bad_data_is_one_line_and_leaves_the_old_model(tmp_path, capsys, text, options, message):
    (tmp_path / "data").write_text(text)
    (tmp_path / "model").write_text("old")
    words = [*options.split(), str(tmp_path / "data"), str(tmp_path / "model")]
    assert run_command(svm_train, words, TRAIN_USAGE) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert message in said.err
    assert (tmp_path / "model").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "model"]


def test_files_that_are_not_there(files, tmp_path, capsys):
    train, test = files["two"]
    assert run_command(svm_train, [str(tmp_path / "nothing")], TRAIN_USAGE) == 1
    assert capsys.readouterr().err.startswith("can't open input file")
    assert run_command(svm_train, [str(train), str(tmp_path / "no" / "model")], TRAIN_USAGE) == 1
    assert "does not exist" in capsys.readouterr().err
    assert run_command(svm_predict, [str(test), str(tmp_path / "nothing"), str(tmp_path / "out")], PREDICT_USAGE) == 1
    assert capsys.readouterr().err.startswith("can't open")
    assert list(tmp_path.iterdir()) == []


def test_damaged_models_are_refused(files, tmp_path, capsys):
    train, test = files["two"]
    ours(svm_train, "-q", train, tmp_path / "model")
    text = (tmp_path / "model").read_text()
    (tmp_path / "model").write_text(text[: len(text) // 2])
    assert run_command(svm_predict, [str(test), str(tmp_path / "model"), str(tmp_path / "out")], PREDICT_USAGE) == 1
    assert "model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "model").write_text(text)
    words = ["-b", "1", str(test), str(tmp_path / "model"), str(tmp_path / "out")]
    assert run_command(svm_predict, words, PREDICT_USAGE) == 1
    assert capsys.readouterr().err.startswith("Model does not support probability estimates\n")


# -- programs -----------------------------------------------------------------------------------------------------


def test_commands_of_dualgap(files, tmp_path):
    train, test = map(str, files["two"])
    runner = CliRunner()
    made = runner.invoke(app, ["svm-train", "-w1", "2.5", "-h", "0", "-c", "2", train, str(tmp_path / "model")])
    assert made.exit_code == 0
    assert "certified: relative gap" in made.output
    said = runner.invoke(app, ["svm-predict", test, str(tmp_path / "model"), str(tmp_path / "out")])
    assert said.exit_code == 0
    assert re.fullmatch(r"Accuracy = [\d.]+% \(\d+/50\) \(classification\)\n", said.output)
    wrong = runner.invoke(app, ["svm-train", "--no-such-thing", train])
    assert wrong.exit_code == 1
    assert "Unknown option: --no-such-thing" in wrong.output
    asked = runner.invoke(app, ["svm-train", "--help"])
    assert (asked.exit_code, asked.output) == (0, TRAIN_USAGE)


def test_scripts_are_installed():
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    for name in ("dualgap-svm-train", "dualgap-svm-predict"):
        module, _, function = project["scripts"][name].partition(":")
        assert callable(getattr(import_module(module), function))


def test_cross_validation_starts_without_scikit_learn(files):
    script = (
        "import sys\n"
        "from dualgap.cli.libsvm_words import run_command\n"
        "from dualgap.cli.svm_train import svm_train\n"
        "assert run_command(svm_train, sys.argv[1:], '') == 0\n"
        "assert 'sklearn' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    words = [sys.executable, "-c", script, "-v", "3", "-q", str(files["two"][0])]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert said.stdout.startswith("Cross Validation Accuracy = ")


@pytest.mark.skipif(SVM_GRID is None, reason="LIBSVM's svm-grid (grid.py) is not installed")
def test_grid_py_drives_it(files, tmp_path):
    program = tmp_path / "dualgap-svm-train"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dualgap svm-train "$@"\n')
    program.chmod(0o755)
    grid = ["-log2c", "0,2,2", "-log2g", "-3,-1,2", "-v", "3", "-gnuplot", "null", "-out", "null"]
    words = [sys.executable, SVM_GRID, *grid, "-svmtrain", str(program), str(files["two"][0])]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    assert said.stderr == ""
    points = re.findall(r"\[local\] (\S+) (\S+) (\S+) \(best", said.stdout)
    assert {(c, g) for c, g, _ in points} == {(c, g) for c in ("0.0", "2.0") for g in ("-3.0", "-1.0")}
    assert all(60.0 < float(rate) <= 100.0 for _, _, rate in points)
    best = said.stdout.splitlines()[-1].split()
    assert float(best[-1]) == max(float(rate) for _, _, rate in points)

"""What LIBSVM's programs print: a run in a few lines, scores, and the errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.cli.libsvm_options import ParameterError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.result import Certificate

# What shells report for a process ended by Ctrl-C: 128 + SIGINT.
_INTERRUPTED = 130
# A coefficient this near to its bound is at it: the relative rounding of a few operations.
_AT_BOUND = 1e-12


@dataclass(frozen=True, eq=False)
class Trained:
    """One task, as LIBSVM tells of it.

    Attributes
    ----------
    row : str
        The formulation.
    iterations, certificate
        How it ended.
    rho : float
        What is taken off the sum of kernel values.
    coefficients, bounds : ndarray
        Signed dual variables of the support vectors, and what they can be at most.
    samples : int
        Samples of the task.
    epsilon : float or None
        Tube that nu-SVR has found.
    """

    row: str
    iterations: int
    certificate: Certificate
    rho: float
    coefficients: NDArray[np.float64]
    bounds: NDArray[np.float64]
    samples: int
    epsilon: float | None = None


def tell_task(task: Trained) -> None:
    """Print how a task ended: LIBSVM's lines, and what is proved of the solution."""
    size = np.abs(task.coefficients)
    bounds, objective = task.bounds, -task.certificate.dual
    print(f"optimization finished, #iter = {task.iterations}")
    if task.row == "nu_svc":
        # LIBSVM divides by the margin, which makes bounds of 1 those of a C-SVC.
        print(f"C = {bounds[0] if bounds.size else 0.0:f}")
        objective *= bounds[0] ** 2 if bounds.size else 1.0
    elif task.row == "nu_svr":
        print(f"epsilon = {task.epsilon:f}")
    elif task.row != "one_class" and np.ptp(bounds) == 0.0:
        print(f"nu = {size.sum() / (bounds[0] * task.samples):f}")
    print(f"obj = {objective:f}, rho = {task.rho:f}")
    at_bound = np.count_nonzero(size >= bounds * (1.0 - _AT_BOUND))
    print(f"nSV = {np.count_nonzero(size)}, nBSV = {at_bound}")
    print(f"certified: {task.certificate}", flush=True)


def accuracy(predicted: NDArray[Any], truth: NDArray[Any]) -> tuple[float, int]:
    """Per cent of right labels, and how many they are."""
    right = int(np.count_nonzero(predicted == truth))
    return 100.0 * right / len(truth), right


def regression_scores(predicted: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[float, float]:
    """Mean squared error and squared correlation coefficient; the latter is nan where either is constant."""
    error = float(np.mean((predicted - truth) ** 2))
    one, two = predicted - predicted.mean(), truth - truth.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.divide(float(one @ two) ** 2, float(one @ one) * float(two @ two))
    return error, float(correlation)


def run_command(command: Callable[[Sequence[str]], None], arguments: Sequence[str] | None, usage: str) -> int:
    """Run a command and turn its errors into what LIBSVM prints; returns the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words in (["--help"], ["-help"]):
        sys.stdout.write(usage)
        return 0
    try:
        command(words)
        sys.stdout.flush()
    except UsageError as error:
        sys.stderr.write(f"{error}\n{usage}")
    except ParameterError as error:
        sys.stderr.write(f"ERROR: {error}\n")
    except FileNotFoundError as error:
        sys.stderr.write(f"can't open input file {error.filename or error}\n")
    except BrokenPipeError:
        # The reader of stdout has left; Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, MemoryError) as error:
        from dualgap.cli.output import fail, sentence

        fail(sentence(error))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    else:
        return 0
    return 1


def put_in_place(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file by `write`, which replaces whole files; a device such as /dev/null gets the bytes."""
    target = Path(os.path.realpath(path))
    if not target.exists() or target.is_file() or target.is_dir():
        write(path)
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole")
        write(whole)
        with target.open("wb") as device:
            device.write(whole.read_bytes())


def check_target(path: Path, name: str, *taken: Path) -> None:
    """Find out, before any work is done, whether a file can be written; devices can."""
    from dualgap.cli.files import check_output

    target = Path(os.path.realpath(path))
    if not target.exists() or target.is_file() or target.is_dir():
        check_output(path, name, *taken)

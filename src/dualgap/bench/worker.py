"""One process a library: fits that can be ended, thread pools that do not meet, and memory that can be told apart."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from dualgap.bench.packages import Fit, Goal

# Seconds for starting, reading and warming up, which no limit on a fit includes: compiling takes a minute at most.
_START_LIMIT = 600.0
# Seconds a process gets to end by itself before it is killed.
_LAST_CALL = 2.0
_VARIABLE = "OMP_NUM_THREADS"
# What scikit-learn and those who follow it warn with where iterations ran out, and what dualgap does.
_UNFINISHED = ("ConvergenceWarning", "NotCertifiedWarning")
# Characters of a message that a table can bear below it.
_MESSAGE = 160


class WorkerError(RuntimeError):
    """The library raised an error, or its process died; the message says which."""


class OverLimitError(RuntimeError):
    """The fit did not end within its limit and was ended.

    Attributes
    ----------
    peak : int or None
        The most memory that its process held, in bytes, where the system tells.
    """

    def __init__(self, message: str, peak: int | None = None) -> None:
        super().__init__(message)
        self.peak = peak


class Task(Protocol):
    """Who solves what: sent to the process, which begins with `start`."""

    @property
    def threads(self) -> int:
        """Threads that OpenMP may use."""

    def start(self) -> tuple[Callable[[Goal], Fit], float]:
        """Read the samples, warm up and prepare: what makes fits, and the seconds of the warm-up."""


@dataclass(frozen=True)
class Answer:
    """A solution, how long it took, and what else was seen of the fit.

    Attributes
    ----------
    solution : Solution or Weights
        What the library found.
    seconds : float
        Of the fit alone.
    grown : int or None
        Bytes that the process grew by beyond its data.
    warning : str
        What the library warned of.
    peak : int or None
        The most memory that the process held, data and code included, in bytes.
    """

    solution: Any
    seconds: float
    grown: int | None = None
    warning: str = ""
    peak: int | None = None


class Worker:
    """The process of one library, started, warmed up and ready to fit.

    Parameters
    ----------
    task : Task
        What it is for.

    Attributes
    ----------
    warm_up : float
        Seconds that compiling or loading code and a first small fit took.
    """

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, task), daemon=True)
        with _environment(_VARIABLE, str(task.threads)):
            self._process.start()
        theirs.close()
        self.warm_up = float(self._receive(_START_LIMIT))

    def fit(self, goal: Goal, limit: float) -> Answer:
        """Fit once; a fit that takes longer than `limit` seconds is ended, and this worker with it."""
        self._connection.send(goal)
        answer = self._receive(limit)
        assert isinstance(answer, Answer)
        return answer

    def close(self) -> None:
        """End the process, at once where it is busy."""
        with suppress(OSError):
            self._connection.send(None)
        self._process.join(_LAST_CALL if self._process.is_alive() else 0.0)
        self._kill()

    def _receive(self, limit: float) -> Any:
        try:
            if not self._connection.poll(limit):
                peak = _status("VmHWM", self._process.pid)
                self._kill()
                raise OverLimitError(f"over the limit of {limit:.3g} s", peak)
            kind, content = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_LAST_CALL)
            raise WorkerError(f"its process died (exit status {self._process.exitcode})") from None
        except BaseException:  # Ctrl-C above all: nothing may go on computing
            self._kill()
            raise
        if kind == "error":
            raise WorkerError(content)
        return content

    def _kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable for processes started inside: OpenMP reads it once, when it is loaded."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _serve(connection: Connection, task: Task) -> None:
    """What the process does: prepare, warm up, then fit once for each goal until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    warnings.simplefilter("ignore")  # whether a solution is good is the judge's to say
    try:
        ready, took = task.start()
    except Exception as error:
        connection.send(("error", _sentence(error)))
        return
    connection.send(("ready", took))
    with suppress(EOFError, BrokenPipeError):  # the parent is gone
        while (goal := connection.recv()) is not None:
            try:
                connection.send(("answer", _fit(ready(goal))))
            except Exception as error:
                connection.send(("error", _sentence(error)))


def _fit(fit: Fit) -> Answer:
    before = forget_peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        model = fit.run()
        took = time.perf_counter() - began
    after = peak_bytes()
    grown = None if before is None or after is None else after - before
    return Answer(fit.read(model), took, grown, _unfinished(caught), after)


def _unfinished(caught: list[warnings.WarningMessage]) -> str:
    """The first warning that a run ended before it was done; others are not about the solution."""
    messages = [str(one.message) for one in caught if one.category.__name__ in _UNFINISHED]
    return _one_line(messages[0]) if messages else ""


def forget_peak() -> int | None:
    """Start to measure peak memory anew: the bytes held now, None where the system does not tell.

    Without this, loading and compiling code (which needs more for a moment) would hide what a small fit takes.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")  # "reset the peak", see proc(5)
        return _status("VmRSS")
    except OSError:
        return peak_bytes()


def peak_bytes() -> int | None:
    """The most memory held since `forget_peak`, None where the system does not tell."""
    found = _status("VmHWM")
    if found is not None or sys.platform == "win32":
        return found
    import resource

    # Bytes on macOS, kilobytes elsewhere. Linux has the file: its ru_maxrss begins with the peak of the parent.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(name: str, process: int | None = None) -> int | None:
    """A line of Linux's account of a process (this one unless named), in bytes."""
    status = Path(f"/proc/{process or 'self'}/status")
    if not status.exists():
        return None
    lines = [line.split() for line in status.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(lines[0][1]) * 1024 if lines else None


def _sentence(error: Exception) -> str:
    """An error in one line of a length that a table can bear."""
    line = _one_line(str(error))
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MESSAGE]

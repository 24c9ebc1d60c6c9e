"""What is on disk of a run: enough to go on from there after a crash, a kill or a full disk.

A file holds, for each task of a fit, the dual variables, the counts and the history, in the layout of `tensors`
(nothing in it is code), and a fingerprint of the data and parameters they belong to. It is replaced as a whole
(`atomic`): whatever happens while it is written, the old file or the new one is there.

Certificates are not stored. Whoever goes on from a file computes them again from the variables, so that a file is
never believed.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.atomic import remove_leftovers
from dualgap.result import Event, History
from dualgap.tensors import ModelFileError, read_tensors, write_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Seconds between two writings unless told otherwise: what a crash may cost.
EVERY = 10.0
# Writing takes at most this share of the time, however often it is asked for.
_SHARE = 0.02
_FORMAT = "dualgap checkpoint 1"
# Counts of an event come back as integers.
_WHOLE = [name.name for name in fields(Event) if name.type == "int"]
_COUNTS = 6


class CheckpointError(ValueError):
    """A checkpoint is of another fit, damaged, or no checkpoint at all; the message says what to do."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written. The fit goes on, and the last one that could is still there."""


@dataclass(frozen=True, eq=False)
class State:
    """How far a task has come.

    Attributes
    ----------
    point : ndarray
        The variables, feasible.
    counts : ndarray of int64
        The totals that an `Event` tells (iterations first).
    seconds : float
        Time spent.
    history : History
        What happened so far.
    status : str
        Name of the `Status` the task ended with; empty while it runs.
    key : str
        Fingerprint of the task's own vectors, where it has one.
    """

    point: NDArray[np.float64]
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_COUNTS, dtype=np.int64))
    seconds: float = 0.0
    history: History = field(default_factory=History)
    status: str = ""
    key: str = ""


class Checkpoint:
    """The file of a fit.

    Parameters
    ----------
    path : path-like
        Where it is, or will be.
    fingerprint : str
        Of what is fitted.
    every : float
        Seconds between two writings, at least.

    Raises
    ------
    CheckpointError
        Where the file belongs to another fit, or is none of ours; it is left untouched.
    FileNotFoundError, IsADirectoryError
        Where nothing can be written under this name.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str, every: float = EVERY) -> None:
        if not every >= 0.0:
            raise ValueError(f"checkpoint_every must be a number of seconds, not negative; got {every!r}.")
        self.path, self.fingerprint, self.every = Path(path), fingerprint, float(every)
        self.complete = False
        self._states: dict[int, State] = {}
        self._lock = threading.Lock()
        self._warned = False
        self._check_place()
        remove_leftovers(self.path)
        if self.path.exists():
            self._read()
        self._next = time.perf_counter() + self.every
        # Where the whole fit had ended, tasks that met a limit may go on; else they have had their share.
        self.resumed_complete, self.complete = self.complete, False

    def _check_place(self) -> None:
        if self.path.is_dir():
            raise IsADirectoryError(f"checkpoint={str(self.path)!r} is a directory; name a file in it.")
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"checkpoint={str(self.path)!r}: the directory {self.path.absolute().parent} does not exist; "
                f"create it first."
            )

    def _read(self) -> None:
        try:
            arrays, metadata = read_tensors(self.path)
            if metadata.get("format") != _FORMAT:
                raise ModelFileError("it is not a checkpoint of this version")
            if metadata.get("fingerprint") == self.fingerprint:
                tasks = json.loads(metadata["tasks"])
                self._states = {int(number): _decoded(number, told, arrays) for number, told in tasks.items()}
                self.complete = metadata["complete"] == "true"
                return
        except (ModelFileError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} cannot be read ({error}); delete the file to start anew, or name "
                f"another one."
            ) from error
        raise CheckpointError(
            f"checkpoint={str(self.path)!r} was written by a fit to other data or with other parameters; delete the "
            f"file to start anew, or name another one."
        )

    def slot(self, number: int) -> Slot:
        """The part of one task."""
        return Slot(self, number, self._states.get(number))

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.perf_counter() >= self._next

    def keep(self, number: int, state: State, *, write: bool = True) -> None:
        """Take over how far a task has come, and write the file."""
        with self._lock:
            self._states[number] = state
            if write:
                self._write()

    def finish(self) -> None:
        """The fit is over."""
        with self._lock:
            self.complete = True
            self._write()

    def flush(self) -> None:
        """Write what was taken over last."""
        with self._lock:
            if self._states:
                self._write()

    def _write(self) -> None:
        began = time.perf_counter()
        arrays: dict[str, NDArray[Any]] = {}
        tasks = {}
        for number, state in self._states.items():
            arrays[f"{number}.point"], arrays[f"{number}.counts"] = state.point, state.counts
            arrays[f"{number}.history"] = _rows(state.history)
            tasks[number] = {"seconds": state.seconds, "status": state.status, "key": state.key}
        metadata = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "complete": "true" if self.complete else "false",
            "tasks": json.dumps(tasks),
        }
        try:
            write_tensors(self.path, arrays, metadata)
        except OSError as error:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"The checkpoint {str(self.path)!r} could not be written ({error.strerror or error}). The fit goes "
                    f"on and will try again; until that succeeds, the last checkpoint is what there is to resume from.",
                    CheckpointWarning,
                    stacklevel=2,
                )
        now = time.perf_counter()
        self._next = now + max(self.every, (now - began) / _SHARE)


@dataclass(frozen=True, eq=False)
class Slot:
    """The part of a checkpoint that one task writes, and what an earlier run left there."""

    file: Checkpoint
    number: int
    earlier: State | None

    @property
    def spent(self) -> bool:
        """Whether the task had ended when the fit was cut off: limits included, it has had its share."""
        return self.earlier is not None and bool(self.earlier.status) and not self.file.resumed_complete

    def resume(self, shape: tuple[int, ...], key: str = "") -> State | None:
        """What is there to go on from.

        Raises
        ------
        CheckpointError
            Where it has another shape, or belongs to another task.
        """
        if self.earlier is not None and (self.earlier.point.shape != shape or self.earlier.key != key):
            raise CheckpointError(
                f"checkpoint={str(self.file.path)!r} does not fit task {self.number} of this fit; delete the file to "
                f"start anew, or name another one."
            )
        return self.earlier

    def due(self) -> bool:
        """Whether it is time to write."""
        return self.file.due()

    def keep(self, state: State, *, write: bool = True) -> None:
        """Take over how far the task has come, and write the file."""
        self.file.keep(self.number, state, write=write)


def _rows(history: History) -> NDArray[np.float64]:
    """A history as a matrix, an event a row; counts below 2^53 are exact."""
    return np.array([astuple(event) for event in history.events], dtype=np.float64).reshape(-1, len(fields(Event)))


def _decoded(number: str, told: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> State:
    point, counts, rows = (arrays[f"{number}.{part}"] for part in ("point", "counts", "history"))
    if not np.all(np.isfinite(point)) or counts.shape != (_COUNTS,) or rows.shape[1:] != (len(fields(Event)),):
        raise ModelFileError(f"the state of task {number} is damaged")
    names = [part.name for part in fields(Event)]
    events = []
    for row in rows.tolist():
        values = dict(zip(names, row, strict=True))
        events.append(Event(**{**values, **{name: int(values[name]) for name in _WHOLE}}))
    return State(
        np.asarray(point, dtype=np.float64),
        np.asarray(counts, dtype=np.int64),
        float(told["seconds"]),
        History(events),
        str(told["status"]),
        str(told["key"]),
    )

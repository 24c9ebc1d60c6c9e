"""Data files as LIBSVM's programs read them: vectors, or rows of a precomputed kernel with a serial number each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dualgap.datasets import DataFileError, load
from dualgap.datasets.libsvm_lines import parse_lines
from dualgap.datasets.streams import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# The serial number of a sample, which stands before the values of its row.
_SERIAL: Final = re.compile(rb"^([ \t]*[^\s#]+[ \t]+)0:(\S+)", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples and labels; of a precomputed kernel the rows, and each sample's own column (from 0) where it has one."""

    X: Any
    y: NDArray[np.float64]
    column: NDArray[np.intp] | None = None

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The square kernel matrix of training samples."""
        return np.ascontiguousarray(self.X[:, self.column])


def read_vectors(path: Path, *, training: bool) -> Samples:
    """Read LIBSVM text: sparse, or to train on as an array where that takes no more memory."""
    from dualgap.cli.files import compact

    data = load(path, format="libsvm")
    return Samples(compact(data.X) if training else data.X, np.asarray(data.y, dtype=np.float64))


def read_kernel_rows(path: Path, *, training: bool) -> Samples:
    """Read rows ``label 0:serial 1:K(x, x_1) 2:K(x, x_2) ...`` of a precomputed kernel.

    Serial numbers of training samples say which column is theirs; those of test samples say nothing.
    """
    with open_bytes(path) as stream:
        text = stream.read()
    if not text.endswith(b"\n"):
        text += b"\n"
    serials = [found.group(2) for found in _SERIAL.finditer(text)]
    rows = parse_lines(
        _SERIAL.sub(rb"\1", text), source=str(path), first_line=1, n_features=None, dtype=np.dtype(np.float64)
    )
    if len(rows) == 0 or len(serials) != len(rows):
        raise DataFileError(f"{path}: Wrong input format: first column must be 0:sample_serial_number")
    # LIBSVM finds values by their place in the row, so that none may be left out; nor is a large index believed.
    if np.any(rows.lengths != rows.width):
        short = int(np.argmax(rows.lengths != rows.width)) + 1
        raise DataFileError(f"{path}: Wrong input format: sample {short} lacks kernel values; write all, zeros as well")
    X = np.ascontiguousarray(rows.values.reshape(len(rows), rows.width))
    if not training:
        return Samples(X, rows.labels)
    return Samples(X, rows.labels, _columns(serials, X.shape[1], path))


def _columns(serials: list[bytes], width: int, path: Path) -> NDArray[np.intp]:
    try:
        numbers = np.array([int(float(serial)) for serial in serials], dtype=np.intp)
    except (ValueError, OverflowError):
        numbers = np.zeros(1, dtype=np.intp)
    if numbers.min() < 1 or numbers.max() > width:
        raise DataFileError(f"{path}: Wrong input format: sample_serial_number out of range")
    return numbers - 1

"""Reading numpy's .npz archives: arrays X and y, or a matrix of scipy.sparse.save_npz beside y."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from dualgap.datasets.dataset import Dataset
from dualgap.datasets.errors import file_error
from dualgap.datasets.npz_members import check_members
from dualgap.datasets.number_text import cast_quietly

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from dualgap.datasets.dataset import Features, Labels

# Members that scipy.sparse.save_npz always writes, whatever the format of the matrix.
_SPARSE_MEMBERS: Final = frozenset({"format", "shape", "data"})
# What numpy, scipy and zipfile raise for archives that are damaged, or none of theirs.
_DAMAGE: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, KeyError, TypeError, OSError),
    *(NotImplementedError, RuntimeError, OverflowError, AttributeError, IndexError, SyntaxError),
)
# Reasons quote names from the archive, which may be long.
_LONGEST_REASON: Final = 160
# A matrix that is not stored by rows is turned into one that is, which takes memory for each row, be it empty.
_ROWS_PER_BYTE: Final = 64
# Kinds of dtype that hold real numbers: boolean, signed, unsigned, floating.
_REAL_KINDS: Final = "biuf"


def read_npz(path: Path, *, dtype: np.dtype[Any]) -> Dataset:
    """Read an archive; nothing in it is ever unpickled."""
    source = str(path)
    if not zipfile.is_zipfile(path):
        raise file_error(source, "not an npz archive, or a truncated one; write it again with numpy.savez")
    try:
        check_members(path)
        with np.load(path, allow_pickle=False) as archive:
            members = set(archive.files)
            y = archive["y"] if "y" in members else None
            dense = archive["X"] if "X" in members else None
        matrix = sparse.load_npz(path) if dense is None and members >= _SPARSE_MEMBERS else None
    except _DAMAGE as error:
        # A damaged archive sends `zipfile` to places that no file has, which the system calls an invalid argument.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
        raise file_error(
            source, f"cannot be read ({reason}); write plain numeric arrays again with numpy.savez"
        ) from error
    X: Features
    if dense is not None:
        X = _dense(dense, source, dtype)
    elif matrix is not None:
        if y is None and matrix.shape[0] > _ROWS_PER_BYTE * path.stat().st_size:
            raise file_error(source, f"X has {matrix.shape[0]} rows, nearly all of them empty; remove the empty rows")
        if y is not None and matrix.shape[0] != y.shape[:1]:
            _labels(y, matrix.shape[0], source)
        X = _sparse(matrix, source, dtype)
    else:
        listed = ", ".join(sorted(members)) or "nothing"
        raise file_error(source, f"holds {listed} and no array X; save it with numpy.savez(path, X=X, y=y)")
    return Dataset(X, None if y is None else _labels(y, X.shape[0], source), None, source)


def _dense(array: NDArray[Any], source: str, dtype: np.dtype[Any]) -> NDArray[np.floating[Any]]:
    _check_shape(array.shape, source)
    _check_kind("X", array.dtype, source)
    values = np.ascontiguousarray(cast_quietly(array, dtype))
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, column = bad[0]
        raise file_error(source, f"X[{row}, {column}] is {values[row, column]}; impute missing values or rescale first")
    return values


def _sparse(matrix: Any, source: str, dtype: np.dtype[Any]) -> sparse.csr_matrix:
    _check_shape(matrix.shape, source)
    _check_kind("X", matrix.dtype, source)
    try:
        # Before any conversion: scipy's conversions trust the indices and would read outside the arrays.
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
    except ValueError as error:
        raise file_error(source, f"not a sparse matrix ({error}); write it again with scipy.sparse.save_npz") from error
    rows = sparse.csr_matrix(matrix)
    rows.sum_duplicates()
    rows.data = cast_quietly(rows.data, dtype)
    if not np.isfinite(rows.data).all():
        raise file_error(source, "X holds NaN or infinite values; impute or rescale them first")
    return rows


def _check_shape(shape: tuple[int, ...], source: str) -> None:
    if len(shape) != 2:
        raise file_error(source, f"X has shape {shape}; save it with one row a sample and one column a feature")
    if shape[0] == 0 or shape[1] == 0:
        raise file_error(source, f"X is empty, of shape {shape}; save at least one sample and one feature")


def _check_kind(name: str, dtype: np.dtype[Any], source: str) -> None:
    if dtype.kind not in _REAL_KINDS:
        raise file_error(source, f"{name} is of dtype {dtype}; encode it as real numbers first")


def _labels(y: NDArray[Any], n_samples: int, source: str) -> Labels:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (n_samples,):
        raise file_error(source, f"y has shape {y.shape} beside {n_samples} rows of X; save one label a row")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    _check_kind("y", y.dtype, source)
    labels = y.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(labels))
    if bad.size:
        raise file_error(source, f"y[{bad[0]}] is {labels[bad[0]]}; remove the samples without a finite label")
    return labels

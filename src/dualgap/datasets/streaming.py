"""Files and streams of matrices larger than memory, kept on disk in pieces that can be read in any order.

Text is parsed once, a chunk at a time, into a temporary file of CSR pieces beside it: 4 bytes a column, 4 bytes a
value where float32 holds all values of the piece exactly and 8 where it does not. The file is removed with the object
that reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from dualgap.datasets.errors import file_error
from dualgap.datasets.libsvm_text import read_libsvm_blocks
from dualgap.datasets.streams import checked_path
from dualgap.kernels.row_blocks import MEMORY, PIECES, ROW_STATE, RowBlocks, check_memory, csr_rows

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

# Rows taken from the parser at a time: few enough for long ones not to add up, many enough (a microsecond each) to cost
# less than parsing them.
_ROWS = 64
_INDEX_LIMIT = 2**31


class CachedRows(RowBlocks):
    """Pieces in a temporary file, read by position."""

    sparse = True

    def __init__(self, writer: _Writer, n_features: int, y: NDArray[Any] | None, memory: float) -> None:
        bounds = np.concatenate([[0], np.cumsum(writer.rows)]).astype(np.int64)
        dtype = np.result_type(*writer.dtypes)
        super().__init__(bounds, n_features, dtype, np.array(writer.entries, dtype=np.int64), y, memory)
        self.folder, self.file = writer.folder, writer.file
        self.at, self.dtypes = writer.at, writer.dtypes

    def load(self, pieces: NDArray[np.int64]) -> Any:
        """Read the rows; values are as wide as the widest of all pieces."""
        count = int(self.entries[pieces].sum())
        lengths = np.empty(int(np.diff(self.bounds)[pieces].sum()), dtype=np.int32)
        indices, values = np.empty(count, dtype=np.int32), np.empty(count, dtype=self.dtype)
        row = entry = 0
        for piece in pieces:
            rows, entries = int(self.bounds[piece + 1] - self.bounds[piece]), int(self.entries[piece])
            self.file.seek(self.at[piece])
            _fill(self.file, lengths[row : row + rows])
            _fill(self.file, indices[entry : entry + entries])
            if self.dtypes[piece] == self.dtype:
                _fill(self.file, values[entry : entry + entries])
            else:
                narrow = np.empty(entries, dtype=self.dtypes[piece])
                _fill(self.file, narrow)
                values[entry : entry + entries] = narrow
            row, entry = row + rows, entry + entries
        return csr_rows(lengths, indices, values, self.shape[1])

    def close(self) -> None:
        """Remove the temporary file."""
        self.file.close()
        self.folder.cleanup()


def stream_libsvm(
    path: str | os.PathLike[str],
    *,
    memory: float = MEMORY,
    cache_dir: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    watch: Callable[[int], object] | None = None,
) -> RowBlocks:
    r"""A LIBSVM text file of any size, to be trained on some rows at a time.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed with gzip, bzip2 or xz.
    memory : float
        Megabytes for the rows that are in memory at a time, with what a solver keeps for them.
    cache_dir : path-like, optional
        Where the temporary file of binary rows goes; beside `path` when None. It is about as large as the text, and is
        removed with the object (or by ``close``).
    n_features : int, optional
        Number of features; that of the largest index when None.
    watch : callable, optional
        Called now and then, while the file is read, with the number of rows so far.

    Returns
    -------
    RowBlocks
        With the file's labels in `y`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dualgap
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "tiny.svm")
    >>> _ = path.write_text("+1 1:0.5 3:2\n-1 2:1\n" * 50)
    >>> with dualgap.stream_libsvm(path, memory=1) as rows:
    ...     model = dualgap.LinearSVC().fit(rows)
    >>> rows.shape, bool(model.certificate_.relative_gap <= 1e-4)
    ((100, 3), True)
    >>> folder.cleanup()
    """
    file = checked_path(path)
    blocks = read_libsvm_blocks(file, _ROWS, n_features=n_features)
    if watch is not None:
        blocks = _watched(blocks, watch)
    return stream_blocks(
        blocks, memory=memory, cache_dir=file.parent if cache_dir is None else cache_dir, n_features=n_features
    )


def _watched(blocks: Iterable[tuple[Any, Any]], watch: Callable[[int], object]) -> Iterator[tuple[Any, Any]]:
    """The same blocks, and word of how many rows have gone by."""
    rows = 0
    for X, y in blocks:
        rows += X.shape[0]
        watch(rows)
        yield X, y


def stream_blocks(
    blocks: Iterable[tuple[Any, Any]],
    *,
    memory: float = MEMORY,
    cache_dir: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
) -> RowBlocks:
    """Matrices that come one after the other, to be trained on some rows at a time.

    Parameters
    ----------
    blocks : iterable of (X, y)
        Samples, dense or sparse, and their labels. Read once; later blocks may be wider than earlier ones.
    memory : float
        Megabytes for the rows that are in memory at a time, with what a solver keeps for them.
    cache_dir : path-like, optional
        Where the temporary file of binary rows goes; the system's folder for such files when None.
    n_features : int, optional
        Number of features; that of the widest block when None.

    Returns
    -------
    RowBlocks
        With the labels in `y`.

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> rng = np.random.default_rng(0)
    >>> def blocks():
    ...     for _ in range(5):
    ...         X = rng.normal(size=(100, 3))
    ...         yield X, np.sign(X[:, 0])
    >>> with dualgap.stream_blocks(blocks(), memory=1) as rows:
    ...     model = dualgap.LinearSVC(loss="hinge").fit(rows)
    >>> rows.shape, bool(model.certificate_.relative_gap <= 1e-4)
    ((500, 3), True)
    """
    check_memory(memory)
    writer = _Writer(cache_dir, 1e6 * memory / PIECES)
    try:
        width = 0
        for X, y in blocks:
            writer.add(sp.csr_matrix(X), np.asarray(y))
            width = max(width, X.shape[1])
        writer.flush()
        if not writer.rows:
            raise ValueError("blocks has no samples; pass matrices that have rows.")
        if n_features is not None and width > n_features:
            raise ValueError(f"blocks has {width} features, more than n_features={n_features}; raise it.")
        return CachedRows(writer, n_features or width, np.concatenate(writer.labels), memory)
    except BaseException:
        writer.file.close()
        writer.folder.cleanup()
        raise


class _Writer:
    """Collects rows into pieces and writes them: lengths of rows, columns, values."""

    def __init__(self, cache_dir: str | os.PathLike[str] | None, piece_bytes: float) -> None:
        try:
            self.folder = tempfile.TemporaryDirectory(prefix="dualgap-rows-", dir=cache_dir)
        except OSError as error:
            raise file_error(
                str(cache_dir), f"cannot hold the temporary rows ({error.strerror}); name another folder as cache_dir"
            ) from error
        # Unbuffered: pieces are large, and what is read lands where it is wanted.
        self.file: BinaryIO = Path(self.folder.name, "rows").open("w+b", buffering=0)  # type: ignore[assignment]  # noqa: SIM115
        self.piece_bytes = piece_bytes
        self.waiting: list[Any] = []
        self.waiting_bytes = 0.0
        self.labels: list[NDArray[Any]] = []
        self.rows: list[int] = []
        self.entries: list[int] = []
        self.at: list[int] = []
        self.dtypes: list[np.dtype[Any]] = []

    def add(self, X: Any, y: NDArray[Any]) -> None:
        """Take some rows; those of a full piece are written."""
        if y.shape != (X.shape[0],):
            raise ValueError(f"a block has {X.shape[0]} rows and labels of shape {y.shape}; give one label a row.")
        if X.shape[1] > _INDEX_LIMIT:
            raise ValueError(f"rows have {X.shape[1]} features, more than 2^31; renumber them.")
        if not X.has_canonical_format:
            X.sum_duplicates()
        if not np.isfinite(X.data).all():
            raise ValueError("a block has values that are NaN or infinite; impute or remove them.")
        self.labels.append(y)
        self.waiting.append(X)
        self.waiting_bytes += ROW_STATE * X.shape[0] + 12.0 * X.nnz
        if self.waiting_bytes >= self.piece_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what has been taken as one piece."""
        if not self.waiting_bytes:
            return
        values = np.concatenate([X.data for X in self.waiting])
        single = values.astype(np.float32)
        values = single if np.array_equal(single, values) else values.astype(np.float64, copy=False)
        self.at.append(self.file.seek(0, 2))
        _store(self.file, np.concatenate([np.diff(X.indptr) for X in self.waiting]).astype(np.int32))
        _store(self.file, np.concatenate([X.indices for X in self.waiting]).astype(np.int32, copy=False))
        _store(self.file, values)
        self.rows.append(sum(X.shape[0] for X in self.waiting))
        self.entries.append(values.size)
        self.dtypes.append(values.dtype)
        self.waiting, self.waiting_bytes = [], 0.0


def _bytes(values: NDArray[Any]) -> memoryview:
    """An array's own memory, byte by byte."""
    return memoryview(values.reshape(-1).view(np.uint8).data)


def _store(file: BinaryIO, values: NDArray[Any]) -> None:
    """Write an array, all of it."""
    view = _bytes(values)
    while view:
        view = view[file.write(view) :]


def _fill(file: BinaryIO, target: NDArray[Any]) -> None:
    """Read into an array, all of it."""
    view = _bytes(target)
    while view:
        count = file.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise OSError("the temporary file of rows has been cut short by somebody else.")
        view = view[count:]

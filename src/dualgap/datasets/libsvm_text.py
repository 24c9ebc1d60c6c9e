"""Reading LIBSVM text files, whole or block by block, in memory that does not grow with the text."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from dualgap.datasets import streams
from dualgap.datasets.dataset import float_dtype
from dualgap.datasets.errors import file_error
from dualgap.datasets.libsvm_lines import parse_lines
from dualgap.datasets.libsvm_rows import INT32_MAX, Rows
from dualgap.datasets.streams import checked_path, open_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import DTypeLike, NDArray

# Bytes of text parsed at once. Speed is the same from 2**16 to 2**22 bytes; the memory for the temporaries,
# some tens of bytes for each byte of text, is what grows.
_CHUNK_BYTES: Final = 1 << 19
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_libsvm_blocks(
    path: str | os.PathLike[str],
    rows_per_block: int,
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
) -> Iterator[tuple[sparse.csr_matrix, NDArray[np.float64]]]:
    r"""Read a LIBSVM text file some rows at a time.

    Parameters
    ----------
    path : path-like
        Plain or compressed with gzip, bzip2 or xz.
    rows_per_block : int
        Rows in each block; the last one has what remains.
    n_features : int, optional
        Width of every block. Without it a block is as wide as the largest index seen up to its end, so the
        width may grow from block to block, and the last block has the width of the file.
    dtype : dtype
        Of the features: float64 or float32.

    Yields
    ------
    X : scipy.sparse.csr_matrix, shape (rows, n_features)
        Entries as written (zeros that the file spells out are kept), with 32-bit indices where they fit.
    y : ndarray of float64, shape (rows,)
        Labels.

    Raises
    ------
    DataFileError
        On reaching a malformed line, damaged compressed data, or the end of a file without rows.
    FileNotFoundError
        Where there is no such file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "tiny.svm")
    >>> _ = path.write_text("+1 1:0.5 3:2\n-1 2:1\n+1 1:4\n")
    >>> [X.shape for X, y in read_libsvm_blocks(path, 2)]
    [(2, 3), (1, 3)]
    >>> folder.cleanup()
    """
    if rows_per_block < 1:
        raise ValueError(f"rows_per_block={rows_per_block} holds no row; use 1 or more")
    limit = checked_width(n_features)
    parts = _iter_rows(checked_path(path), limit, float_dtype(dtype))
    return _as_blocks(_regroup(parts, rows_per_block), limit)


def read_libsvm(
    path: Path, *, n_features: int | None, dtype: np.dtype[Any]
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    """Read a whole LIBSVM text file; the text itself is never in memory as a whole."""
    rows = _join(list(_iter_rows(path, checked_width(n_features), dtype)))
    return _to_csr(rows, rows.width if n_features is None else n_features), rows.labels


def checked_width(n_features: int | None) -> int | None:
    """Check the number of features that a caller asks for."""
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features={n_features} leaves no feature; use 1 or more, or leave it out")
    return n_features


def _iter_rows(path: Path, n_features: int | None, dtype: np.dtype[Any]) -> Iterator[Rows]:
    """Samples of the file, a chunk of text at a time; at least one sample or an error."""
    line = 1
    found = False
    with open_bytes(path) as stream:
        for text in _whole_lines(stream, str(path)):
            rows = parse_lines(text, source=str(path), first_line=line, n_features=n_features, dtype=dtype)
            line += text.count(b"\n")
            if len(rows):
                found = True
                yield rows
    if not found:
        raise file_error(str(path), "no samples, only blanks or comments; write or download it again")


def _whole_lines(stream: BinaryIO, source: str) -> Iterator[bytes]:
    """Chunks of about `_CHUNK_BYTES`, each ended by a newline: more only where one line is longer."""
    pending: list[bytes] = []
    held = 0
    chunk = stream.read(_CHUNK_BYTES).removeprefix(_BYTE_ORDER_MARK)
    while chunk:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*pending, chunk[:cut]])
            pending, held = [], 0
        pending.append(chunk[cut:])
        held += len(pending[-1])
        if held > streams.LONGEST_LINE:
            raise streams.line_error(source)
        chunk = stream.read(_CHUNK_BYTES)
    unfinished = b"".join(pending)
    if unfinished:
        yield unfinished + b"\n"


def _regroup(parts: Iterable[Rows], size: int) -> Iterator[Rows]:
    """The same samples in groups of `size`, the last one excepted."""
    pending: list[Rows] = []
    missing = size
    for part in parts:
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(part.lengths)))
        for first, last in pairwise([0, *range(missing, len(part), size), len(part)]):
            pending.append(_slice(part, offsets, first, last))
            missing -= last - first
            if missing == 0:
                yield _join(pending)
                pending, missing = [], size
    if pending:
        yield _join(pending)


def _slice(rows: Rows, offsets: NDArray[np.int64], first: int, last: int) -> Rows:
    entries = slice(offsets[first], offsets[last])
    return Rows(rows.labels[first:last], rows.lengths[first:last], rows.columns[entries], rows.values[entries])


def _join(parts: list[Rows]) -> Rows:
    return Rows(
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _as_blocks(
    groups: Iterable[Rows], n_features: int | None
) -> Iterator[tuple[sparse.csr_matrix, NDArray[np.float64]]]:
    widest = 0
    for rows in groups:
        widest = max(widest, rows.width)
        yield _to_csr(rows, widest if n_features is None else n_features), rows.labels


def _to_csr(rows: Rows, width: int) -> sparse.csr_matrix:
    fits = max(width, rows.columns.size) <= INT32_MAX
    index_dtype = np.int32 if fits else np.int64
    offsets = np.zeros(len(rows) + 1, dtype=index_dtype)
    np.cumsum(rows.lengths, out=offsets[1:])
    columns = rows.columns.astype(index_dtype, copy=False)
    matrix = sparse.csr_matrix((rows.values, columns, offsets), shape=(len(rows), width))
    matrix.has_canonical_format = True  # the parser has checked that indices grow: no need to look again
    return matrix

"""Support vectors of LIBSVM's model files, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp

from dualgap.datasets.errors import DataFileError
from dualgap.datasets.libsvm_lines import parse_lines
from dualgap.datasets.libsvm_rows import INT32_MAX
from dualgap.formats.model_text import number_text, parse_numbers
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.formats.model_text import Header

# Bytes of text parsed at once: the temporaries take some tens of bytes for each.
_CHUNK_BYTES: Final = 1 << 19
_FLOAT64: Final = np.dtype(np.float64)


def vector_texts(estimator: Any, order: NDArray[np.intp]) -> list[str]:
    """The support vectors in the given order, each as pairs of an index from 1 and a value that is not zero."""
    if estimator._kernel.name == "precomputed":
        return [f"0:{row + 1}" for row in estimator.support_[order].tolist()]
    rows = sp.csr_matrix(estimator.support_vectors_)[order]
    rows.eliminate_zeros()
    rows.sort_indices()
    pairs = [
        f"{column}:{number_text(value)}"
        for column, value in zip((rows.indices.astype(np.int64) + 1).tolist(), rows.data.tolist(), strict=True)
    ]
    ends = rows.indptr.tolist()
    return [" ".join(pairs[ends[i] : ends[i + 1]]) for i in range(rows.shape[0])]


def read_vectors(
    header: Header, total: int, columns: int, kernel: str, n_features: int | None
) -> tuple[NDArray[np.float64], Any, NDArray[np.intp]]:
    """Coefficients (`columns` rows), vectors, and which samples they are, as the file lists them."""
    lines = header.body.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) != total:
        raise ModelFileError(f"has {len(lines)} lines of support vectors where {total} are announced")
    if b"#" in header.body:
        raise ModelFileError("holds a comment, which a LIBSVM model has none of")
    heads, tails = _split(lines, columns, header.lines + 1)
    coefficients = parse_numbers(heads, "a coefficient").reshape(total, columns).T
    if kernel == "precomputed":
        return coefficients, np.empty((0, 0)), _serial_numbers(tails, header.lines + 1)
    return coefficients, _parse_rows(tails, header.lines + 1, n_features), np.arange(total)


def _split(lines: list[bytes], columns: int, first_line: int) -> tuple[list[bytes], list[bytes]]:
    """Coefficients of all lines in one list, and what follows them in each."""
    heads: list[bytes] = []
    tails: list[bytes] = []
    for number, line in enumerate(lines, first_line):
        parts = line.split(None, columns)
        if len(parts) < columns:
            raise ModelFileError(f"line {number} has fewer than the {columns} coefficients of {columns + 1} classes")
        heads += parts[:columns]
        tails.append(parts[columns] if len(parts) > columns else b"")
    return heads, tails


def _serial_numbers(tails: list[bytes], first_line: int) -> NDArray[np.intp]:
    """Rows of a precomputed kernel, from 0."""
    found = []
    for number, tail in enumerate(tails, first_line):
        head, _, digits = tail.strip().partition(b":")
        # Ten digits are the most that a C int has.
        if head != b"0" or not digits.isdigit() or len(digits) > 10 or not 1 <= int(digits) <= INT32_MAX:
            raise ModelFileError(f"line {number} does not name a row of the precomputed kernel as 0:number")
        found.append(int(digits) - 1)
    return np.array(found, dtype=np.intp)


def _parse_rows(tails: list[bytes], first_line: int, n_features: int | None) -> Any:
    """A matrix of the vectors, as wide as `n_features` or as the largest index; dense where it is mostly full."""
    parts, start = [], 0
    while start < len(tails):
        stop, size = start, 0
        while stop < len(tails) and (stop == start or size < _CHUNK_BYTES):
            size += len(tails[stop])
            stop += 1
        # With a label in front it is a line of data.
        text = b"".join(b"0 " + tail + b"\n" for tail in tails[start:stop])
        try:
            parts.append(
                parse_lines(text, source="", first_line=first_line + start, n_features=n_features, dtype=_FLOAT64)
            )
        except DataFileError as error:
            raise ModelFileError(str(error).removeprefix(", ")) from None
        start = stop
    widest = max((rows.width for rows in parts), default=0)
    if widest > INT32_MAX:
        raise ModelFileError(f"has a feature of index {widest}, above the {INT32_MAX} of LIBSVM")
    lengths = [np.zeros(1, dtype=np.int64), *(rows.lengths for rows in parts)]
    values = np.concatenate([np.empty(0), *(rows.values for rows in parts)])
    indices = np.concatenate([np.empty(0, dtype=np.int32), *(rows.columns for rows in parts)])
    width = widest if n_features is None else n_features
    matrix = sp.csr_matrix((values, indices, np.cumsum(np.concatenate(lengths))), shape=(len(tails), width))
    # Full rows are predicted with faster, and take no more memory than their text.
    return matrix.toarray() if 2 * matrix.nnz >= matrix.shape[0] * matrix.shape[1] else matrix

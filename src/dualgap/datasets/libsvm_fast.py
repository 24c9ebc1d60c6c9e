"""The fast parser of LIBSVM text: whole chunks of lines with array operations, or nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dualgap.datasets.libsvm_rows import Rows, compact_columns
from dualgap.datasets.number_text import cast_quietly

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPACE, _NEWLINE, _ZERO, _COLON = (ord(character) for character in " \n0:")
# All that is understood here; nan, inf, qid, '1_000' and garbage hold something else.
_ORDINARY: Final = b"0123456789+-.eE: \n"
# 10**18 - 1 is below 2**63 - 1: an index of so many digits cannot overflow its int64.
_SAFE_DIGITS: Final = 18


class _UnusualTextError(Exception):
    """Something here needs the exact parser: a fault, or what is rare enough to be left to it."""


def parse_fast(text: bytes, dtype: np.dtype[Any]) -> Rows | None:
    """Parse whole lines at once, or decline: None where any of them is wrong or merely unusual."""
    if text.translate(None, _ORDINARY):
        return None
    codes = np.frombuffer(text, dtype=np.uint8)
    starts, ends = _token_bounds(codes)
    if starts.size == 0:
        return _empty_rows(dtype)
    label_tokens, lengths = _tokens_by_line(codes, starts)
    is_pair = np.ones(starts.size, dtype=bool)
    is_pair[label_tokens] = False
    try:
        begins = starts[is_pair]
        colons = _one_colon_each(codes, begins, ends[is_pair])
        indices, remaining = _split_off_indices(codes, begins, colons)
        _check_ascending(indices, lengths)
        numbers = _parse_numbers(remaining, starts.size)
        values = cast_quietly(numbers[is_pair], dtype)
        _check_finite(numbers, values)
    except _UnusualTextError:
        return None
    return Rows(numbers[label_tokens], lengths, compact_columns(indices - 1), values)


def _empty_rows(dtype: np.dtype[Any]) -> Rows:
    return Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, dtype))


def _token_bounds(codes: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First position of every token and the position after its last."""
    inside = codes > _SPACE  # the blanks left are the space and, below it, the newline
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if inside.size and inside[0]:
        edges = np.concatenate((np.zeros(1, edges.dtype), edges))
    return edges[0::2], edges[1::2]


def _tokens_by_line(codes: NDArray[np.uint8], starts: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """For every line that is not blank: which token is its label, and how many follow it."""
    line_ends = np.flatnonzero(codes == _NEWLINE)
    tokens_before = np.concatenate((np.zeros(1, np.intp), np.searchsorted(starts, line_ends)))
    counts = np.diff(tokens_before)
    filled = counts > 0
    return tokens_before[:-1][filled], (counts[filled] - 1).astype(np.int64, copy=False)


def _one_colon_each(codes: NDArray[np.uint8], begins: NDArray[np.intp], ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Position of the colon in each index:value pair."""
    colons = np.flatnonzero(codes == _COLON)
    # Tokens are disjoint and ordered, so equal numbers and the right order put exactly one colon inside each
    # pair, with something on either side of it, and none in a label.
    if colons.size != begins.size or np.any(begins >= colons) or np.any(colons + 1 >= ends):
        raise _UnusualTextError
    return colons


def _split_off_indices(
    codes: NDArray[np.uint8], begins: NDArray[np.intp], colons: NDArray[np.intp]
) -> tuple[NDArray[np.int64], bytes]:
    """Indices as integers, and the text with spaces in their place, so that only labels and values remain."""
    remaining = codes.copy()
    remaining[colons] = _SPACE
    widths = colons - begins
    widest = int(widths.max(initial=0))
    if widest > _SAFE_DIGITS:
        raise _UnusualTextError
    indices = np.zeros(begins.size, dtype=np.int64)
    for place in range(widest):
        held = np.flatnonzero(widths > place)
        where = colons[held] - 1 - place
        # uint8 wraps around, so whatever is not a digit comes out above 9.
        digits = codes[where] - np.uint8(_ZERO)
        if np.any(digits > 9):
            raise _UnusualTextError
        indices[held] += digits.astype(np.int64) * 10**place
        remaining[where] = _SPACE
    return indices, remaining.tobytes()


def _check_ascending(indices: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """The indices of every row start at 1 or above and grow."""
    grows = np.ones(indices.size, dtype=bool)
    grows[1:] = indices[1:] > indices[:-1]
    row_starts = np.cumsum(lengths) - lengths
    grows[row_starts[lengths > 0]] = True
    if not grows.all() or indices.min(initial=1) < 1:
        raise _UnusualTextError


def _parse_numbers(text: bytes, expected: int) -> NDArray[np.float64]:
    try:
        numbers = np.fromstring(text, dtype=np.float64, sep=" ")  # text mode: any run of blanks separates
    except ValueError as error:
        raise _UnusualTextError from error
    # Older versions of numpy stop at what they cannot read instead of raising.
    if numbers.size != expected:
        raise _UnusualTextError
    return numbers


def _check_finite(*arrays: NDArray[np.floating[Any]]) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise _UnusualTextError

"""Named arrays in a file, in the layout of safetensors, with nothing but numpy.

The file is: the length of the header (8 bytes, little-endian); the header, JSON that gives for each array its
dtype, shape and range of bytes, and strings under ``__metadata__``; the arrays' bytes, little-endian, in row
order, one after the other without gaps. Loading executes nothing and believes nothing.
"""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from dualgap.atomic import atomic_write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedReader

    from numpy.typing import NDArray

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_CODES: Final = {dtype: code for code, dtype in _DTYPES.items()}
_METADATA: Final = "__metadata__"
_ENTRY_KEYS: Final = frozenset({"dtype", "shape", "data_offsets"})
_LENGTH_BYTES: Final = 8
# Arrays start at a multiple of this, the widest item there is, so that a mapped file is aligned.
_ALIGNMENT: Final = 8
# Parsed JSON can take some thirty times the bytes of its text; with this bound a hostile header costs half a
# gigabyte at the very worst, while the names of a million features still fit.
_MAX_HEADER_BYTES: Final = 16 * 2**20
# What every version of numpy can hold: version 1 stops at 32 dimensions, and all of them count bytes in an
# int64, even those that an empty array would have if its dimensions of length 0 were left out.
_MAX_DIMENSIONS: Final = 32
_MAX_BYTES: Final = 2**63 - 1


class ModelFileError(ValueError):
    """A model file is truncated, damaged, hostile or of another kind; the one-line message says which."""


class _Entry(NamedTuple):
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def write_tensors(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write named arrays and strings to a file, all at once.

    An existing file is replaced when the new one is complete and on disk; a failure leaves it untouched.
    Equal arguments give equal bytes, whatever the order of the mappings.

    Parameters
    ----------
    path : path-like
        The file, in a directory that exists.
    arrays : mapping of str to ndarray
        Of dtype float64, float32, int64, int32, uint8 or bool.
    metadata : mapping of str to str
        What the arrays mean.

    Raises
    ------
    ValueError
        Where a name, a dtype or a metadata value cannot be stored; nothing is written.
    OSError
        Where the system cannot write there.
    """
    prepared = {_checked_text(name, "array name"): _little_endian(name, arrays[name]) for name in arrays}
    if _METADATA in prepared:
        raise ValueError(f"an array cannot be called {_METADATA}: the format keeps the name; choose another")
    # Widest items first, so that every array starts at a multiple of its item's size.
    ordered = sorted(prepared.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header = _encode_header(ordered, metadata)
    with atomic_write(path) as file:
        file.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
        file.write(header)
        for _, array in ordered:
            file.write(array.reshape(-1).view(np.uint8).data)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read named arrays and strings from a file of any origin.

    The header is checked in full before anything is allocated, and the arrays together are never larger
    than the file.

    Parameters
    ----------
    path : path-like
        A file that `write_tensors`, or another writer of the safetensors layout, has written.

    Returns
    -------
    arrays : dict of str to ndarray
        In the order in which they lie in the file; writable, each with memory of its own.
    metadata : dict of str to str
        Empty where the file has none.

    Raises
    ------
    ModelFileError
        Where it is not exactly such a file: truncated, damaged, with overlaps, gaps or an unknown dtype.
    OSError
        Where the system cannot read it.
    """
    source = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header_length = _read_header_length(file, size)
            entries, metadata = _decode_header(_read_exactly(file, header_length))
            _check_layout(entries, size - _LENGTH_BYTES - header_length)
            arrays = {entry.name: _read_array(file, entry) for entry in entries}
        except ModelFileError as error:
            raise ModelFileError(f"{source}: {error}; save or copy the model again") from error
    return arrays, metadata


def _checked_text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{what} {text!r} is of type {type(text).__name__}; use a string")
    if not _is_unicode(text):
        raise ValueError(f"{what} {text!r} holds half a surrogate pair, which is no text; remove it")
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")  # refuses the halves of surrogate pairs, which JSON can spell
    except UnicodeEncodeError:
        return False
    return True


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in row order with the byte order of the file; itself where it is so already."""
    given = np.asarray(array)
    dtype = given.dtype.newbyteorder("<")
    if dtype not in _CODES:
        raise ValueError(f"array {name!r} is of dtype {given.dtype}; convert it to one of {_listed_dtypes()}")
    if given.ndim > _MAX_DIMENSIONS:
        raise ValueError(f"array {name!r} has {given.ndim} dimensions; reshape it to {_MAX_DIMENSIONS} or fewer")
    return given.astype(dtype, order="C", copy=False)


def _listed_dtypes() -> str:
    return ", ".join(dtype.name for dtype in _DTYPES.values())


def _encode_header(ordered: list[tuple[str, NDArray[Any]]], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, object] = {
        _METADATA: {
            _checked_text(key, "metadata key"): _checked_text(metadata[key], f"metadata {key!r}")
            for key in sorted(metadata)
        }
    }
    begin = 0
    for name, array in ordered:
        end = begin + array.nbytes
        code = _CODES[array.dtype]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    padded = text + b" " * (-len(text) % _ALIGNMENT)
    if len(padded) > _MAX_HEADER_BYTES:
        raise ValueError(
            f"names and metadata take {len(padded)} bytes, above the header's limit of {_MAX_HEADER_BYTES}; "
            "store what is long as an array"
        )
    return padded


def _read_header_length(file: BufferedReader, size: int) -> int:
    if size < _LENGTH_BYTES:
        raise ModelFileError(f"truncated: {size} bytes, fewer than the {_LENGTH_BYTES} of a header's length")
    length = int.from_bytes(_read_exactly(file, _LENGTH_BYTES), "little")
    if length > _MAX_HEADER_BYTES:
        raise ModelFileError(f"announces a header of {length} bytes, above the limit of {_MAX_HEADER_BYTES}")
    if length > size - _LENGTH_BYTES:
        raise ModelFileError(f"truncated: {size} bytes, with a header of {length} announced")
    return length


def _read_exactly(file: BufferedReader, count: int) -> bytes:
    content = file.read(count)
    if len(content) != count:
        raise ModelFileError("truncated while it was read")
    return content


def _decode_header(content: bytes) -> tuple[list[_Entry], dict[str, str]]:
    """Arrays, in the order of their bytes, and metadata."""
    header = _parse_json(content)
    if not isinstance(header, dict):
        raise ModelFileError("the header is not a JSON object")
    metadata = _checked_metadata(header.pop(_METADATA, {}))
    entries = [_checked_entry(name, value) for name, value in header.items()]
    return sorted(entries, key=lambda entry: (entry.begin, entry.end)), metadata


def _parse_json(content: bytes) -> object:
    # The layout asks for it; it also keeps out byte-order marks, which parsers treat each in its way.
    if not content.startswith(b"{"):
        raise ModelFileError("the header does not start with '{'")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_distinct_keys, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ModelFileError(f"the header is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ModelFileError("the header is nested too deeply") from error
    except ModelFileError:
        raise
    except ValueError as error:  # bad syntax, or a number of thousands of digits
        raise ModelFileError(f"the header is not JSON ({error})") from error


def _distinct_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError("the header has the same key twice")
    if not all(_is_unicode(key) for key in found):
        raise ModelFileError("the header has a key that is not Unicode text")
    return found


def _refuse_constant(constant: str) -> NoReturn:
    raise ModelFileError(f"the header holds {constant}, which is not JSON")


def _checked_metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ModelFileError(f"{_METADATA} is not an object")
    for text in value.values():
        if not isinstance(text, str) or not _is_unicode(text):
            raise ModelFileError(f"{_METADATA} holds a value that is not text")
    return value


def _checked_entry(name: str, value: object) -> _Entry:
    where = f"array {_excerpt(name)}"
    if not isinstance(value, dict) or value.keys() != _ENTRY_KEYS:
        raise ModelFileError(f"{where} is not described by dtype, shape and data_offsets alone")
    code = value["dtype"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise ModelFileError(f"{where} has dtype {_excerpt(code)}, not one of {', '.join(_DTYPES)}")
    dtype = _DTYPES[code]
    shape = _checked_shape(value["shape"], dtype, where)
    begin, end = _checked_offsets(value["data_offsets"], where)
    expected = math.prod(shape) * dtype.itemsize
    if end - begin != expected:
        raise ModelFileError(f"{where} has {end - begin} bytes where its shape and dtype ask for {expected}")
    return _Entry(name, dtype, shape, begin, end)


def _excerpt(value: object) -> str:
    # Twenty or so letters identify a name; a hostile one may have millions, with newlines.
    return f"{value!a:.24}"


def _is_natural(value: object) -> bool:
    return type(value) is int and value >= 0  # bool is an int to isinstance


def _checked_shape(value: object, dtype: np.dtype[Any], where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(_is_natural(length) for length in value):
        raise ModelFileError(f"{where} has a shape that is not a list of natural numbers")
    if len(value) > _MAX_DIMENSIONS:
        raise ModelFileError(f"{where} has {len(value)} dimensions, above the limit of {_MAX_DIMENSIONS}")
    # Without its zeros: numpy refuses an empty array whose other dimensions overflow.
    if math.prod(length for length in value if length) * dtype.itemsize > _MAX_BYTES:
        raise ModelFileError(f"{where} has a shape that no memory can hold")
    return tuple(value)


def _checked_offsets(value: object, where: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or not all(_is_natural(offset) for offset in value):
        raise ModelFileError(f"{where} has data_offsets that are not two natural numbers")
    begin, end = value
    if begin > end:
        raise ModelFileError(f"{where} ends before it begins")
    if end > _MAX_BYTES:
        raise ModelFileError(f"{where} ends beyond any file")
    return begin, end


def _check_layout(entries: list[_Entry], available: int) -> None:
    """Arrays, sorted by their bytes, must cover what follows the header: no overlap, no gap, no rest."""
    reached = 0
    for entry in entries:
        if entry.begin != reached:
            problem = "overlaps another" if entry.begin < reached else "leaves a gap before it"
            raise ModelFileError(f"array {_excerpt(entry.name)} {problem}")
        reached = entry.end
    if reached > available:
        raise ModelFileError(f"truncated: {available} bytes of arrays where {reached} are announced")
    if reached < available:
        raise ModelFileError(f"{available - reached} bytes follow the last array")


def _read_array(file: BufferedReader, entry: _Entry) -> NDArray[Any]:
    content = np.empty(entry.end - entry.begin, dtype=np.uint8)
    if file.readinto(content.data) != content.size:
        raise ModelFileError("truncated while it was read")
    if entry.dtype.kind == "b" and content.max(initial=0) > 1:
        raise ModelFileError(f"array {_excerpt(entry.name)} is of truth values and holds a byte above 1")
    array = content.view(entry.dtype).reshape(entry.shape)
    return array.astype(entry.dtype.newbyteorder("="), copy=False)

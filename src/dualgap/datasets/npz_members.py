"""What an npz archive says of its members, checked before anything is made of it.

numpy reserves memory for the shape that a member's header names, however few bytes follow it. Here the bytes are
counted first.
"""

from __future__ import annotations

import math
import zipfile
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

# numpy writes no others, and the rest may expand without bound.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A byte of deflated data stands for 1032 at most; a little more for tiny members.
_MAX_RATIO: Final = 1032
_SLACK: Final = 4096
_ENCRYPTED: Final = 0x1
_HEADERS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def check_members(path: Path) -> None:
    """Check that every member is a plain array with as many bytes as its shape asks for.

    Raises
    ------
    ValueError
        Where one is not; the message says which and why.
    zipfile.BadZipFile, NotImplementedError, OSError, ...
        What `zipfile` itself raises for a damaged archive.
    """
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            shown = f"{member.filename!a:.40}"
            if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
                raise ValueError(f"member {shown} is encrypted, or compressed by another method than deflate")
            if member.compress_size > size or member.file_size > member.compress_size * _MAX_RATIO + _SLACK:
                raise ValueError(f"member {shown} has fewer bytes than it announces")
            with archive.open(member) as stream:
                _check_array(cast("BinaryIO", stream), member.file_size, shown)


def _check_array(stream: BinaryIO, size: int, shown: str) -> None:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"member {shown} is in version {version} of numpy's format")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError(f"member {shown} holds Python objects, which are never unpickled")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise ValueError(f"member {shown} has fewer or more bytes than its shape asks for")

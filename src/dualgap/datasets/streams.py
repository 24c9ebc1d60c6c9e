"""Opening a data file as a stream of bytes, decompressed on the way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from dualgap.datasets.errors import DataFileError, file_error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

# First bytes of each kind of compressed file, by the suffix that names it.
_MAGIC: Final = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\x00"}
# Bytes or letters of a line at most. A few kilobytes of compressed data can stand for a line of any length, and lines
# are read whole; twenty million numbers still fit.
LONGEST_LINE: Final = 1 << 28
_LONGEST_MAGIC: Final = max(map(len, _MAGIC.values()))


def strip_compression(path: Path) -> tuple[Path, str]:
    """Split ``a.svm.xz`` into ``a.svm`` and ``.xz`` (an empty string for a name that says no compression)."""
    suffix = path.suffix.lower()
    return (path.with_suffix(""), suffix) if suffix in _MAGIC else (path, "")


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Path of an existing, non-empty file that is not a directory."""
    checked = Path(path)
    if checked.is_dir():
        raise file_error(str(checked), "is a directory; name a data file in it")
    if not checked.exists():
        raise FileNotFoundError(f"{checked}: no such file; check the path (from {Path.cwd()})")
    if checked.is_file() and checked.stat().st_size == 0:
        raise file_error(str(checked), "the file is empty; write or download it again")
    return checked


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for reading, decompressing gzip, bzip2 and xz.

    The content decides on the compression, so a compressed file without the suffix is read as well; a name
    that promises a compression the content does not have is an error. Damage to the compressed
    data found while reading inside the context is raised as DataFileError.
    """
    with _open_by_content(path) as stream:
        try:
            yield stream
        except EOFError as error:
            raise file_error(str(path), "the compressed file is truncated; copy or download it again") from error
        except (lzma.LZMAError, zlib.error) as error:
            raise _damaged(path, error) from error
        except OSError as error:
            # gzip and bz2 report bad data as an OSError without a number; the system's own have one.
            if error.errno is not None:
                raise
            raise _damaged(path, error) from error


def line_error(source: str, line: int | None = None) -> DataFileError:
    """The error for a line that is longer than `LONGEST_LINE`."""
    return file_error(source, f"has a line of more than {LONGEST_LINE} characters; this is no data file", line)


def _open_by_content(path: Path) -> BinaryIO:
    with path.open("rb") as raw:
        start = raw.read(_LONGEST_MAGIC)
    found = next((suffix for suffix, magic in _MAGIC.items() if start.startswith(magic)), "")
    promised = strip_compression(path)[1]
    if promised and not found:
        raise file_error(
            str(path),
            f"named {promised} but does not start like such a file; rename it, or download it again "
            "in case it is truncated",
        )
    if found == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if found == ".bz2":
        return cast("BinaryIO", bz2.open(path, "rb"))
    if found == ".xz":
        return cast("BinaryIO", lzma.open(path, "rb"))
    return path.open("rb")


def _damaged(path: Path, error: Exception) -> ValueError:
    return file_error(str(path), f"the compressed data is damaged ({error}); copy or download it again")

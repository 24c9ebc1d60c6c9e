"""Replacing a file all at once: readers see the old content or the new, never a part."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# 64 random bits: no two writers ever choose the same temporary name.
_NAME_BYTES: Final = 8
# Letters of the file's own name in a temporary one: at most four bytes each, with room for the rest.
_NAME_LETTERS: Final = 50
# What some network file systems answer when asked to sync a directory: they have no such operation.
_CANNOT_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that takes its place only once it is complete and on disk.

    The context gives a binary file in the same directory. When the context ends, that file is flushed,
    synced and renamed to `path`; when it ends by an exception of any kind, the temporary file is removed and
    `path` is as it was. The permissions of an existing file are kept, and a symbolic link stays one: the
    file that it points to is replaced.

    Parameters
    ----------
    path : path-like
        The file to create or replace, in a directory that exists.

    Yields
    ------
    binary file object
        Open for writing; closed by the context.

    Raises
    ------
    FileNotFoundError
        Where the directory does not exist.
    IsADirectoryError
        Where `path` is a directory.
    OSError
        Where `path` is a device, or the system cannot write there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "note.bin")
    ...     with atomic_write(target) as file:
    ...         _ = file.write(b"complete")
    ...     target.read_bytes()
    b'complete'
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path}: is a directory; name a file in it")
    if target.exists() and not target.is_file():
        # Renaming over /dev/null, as root, would put a plain file in its place for everyone.
        raise OSError(f"{path}: is a device or a pipe, which cannot be replaced; name a plain file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: the directory {target.parent} does not exist; create it first")
    temporary = target.parent / f"{_prefix(target)}{secrets.token_hex(_NAME_BYTES)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            _copy_permissions(target, temporary)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what writers of this file left beside it when they were killed.

    Only for a file with one writer at a time: the temporary file of another one would be gone.

    Parameters
    ----------
    path : path-like
        The file they were to write; it is not touched.
    """
    target = Path(os.path.realpath(path))
    left = re.compile(re.escape(_prefix(target)) + f"[0-9a-f]{{{2 * _NAME_BYTES}}}[.]tmp")
    for name in os.listdir(target.parent):
        if left.fullmatch(name):
            (target.parent / name).unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    """How the names of its temporary files begin; cut, because file systems limit names to 255 bytes."""
    return f".{target.name[:_NAME_LETTERS]}."


def _copy_permissions(source: Path, destination: Path) -> None:
    if source.exists():
        destination.chmod(stat.S_IMODE(source.stat().st_mode))


def _sync_directory(directory: Path) -> None:
    """Make the renaming itself survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)

"""Loading a data file of any known format, and finding the real ones by name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dualgap.datasets.csv_text import read_csv
from dualgap.datasets.dataset import Dataset, float_dtype
from dualgap.datasets.errors import file_error
from dualgap.datasets.libsvm_text import checked_width, read_libsvm
from dualgap.datasets.npz_arrays import read_npz
from dualgap.datasets.streams import checked_path, open_bytes, strip_compression

if TYPE_CHECKING:
    from typing import BinaryIO

    from numpy.typing import DTypeLike

_FORMATS: Final = ("libsvm", "csv", "npz")
_FORMAT_OF_SUFFIX: Final = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".svml": "libsvm",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".npz": "npz",
}
_ZIP_MAGIC: Final = b"PK\x03\x04"
_PAIR: Final = re.compile(rb"-?[0-9]+:\S+")
# Lines looked at to tell LIBSVM text from a table, and the most that is read of each: rows of a sparse file
# can be megabytes long, and their beginning tells as much.
_SAMPLE_LINES: Final = 20
_SAMPLE_LINE_BYTES: Final = 1 << 14

_DATA_VARIABLE: Final = "DUALGAP_DATA"
_DATA_SUFFIX: Final = ".svm.xz"


def load(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    label_column: str | int | None = "auto",
    header: bool | str = "auto",
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
) -> Dataset:
    r"""Load samples and labels from a file.

    Parameters
    ----------
    path : path-like
        LIBSVM text or a table in text, either of them plain or compressed with gzip, bzip2 or xz; or an npz
        archive with arrays ``X`` and ``y``, or with ``y`` beside the arrays of ``scipy.sparse.save_npz``.
    format : {"auto", "libsvm", "csv", "npz"}
        "auto" goes by the suffix (.svm, .libsvm, .svmlight, .svml; .csv, .tsv, .tab; .npz), and by the first
        lines where the suffix says nothing. "csv" stands for cells separated by comma, semicolon, tab or
        blanks: the first lines tell which.
    label_column : str, int or None
        Of a csv file: the name of the label column, its number from 0 (negative numbers count from the end),
        or None for a table without labels. "auto" is the column called label, class, target or y, the first
        of these that the header has in any case of letters; without one, or without a header, the last.
    header : {"auto", True, False}
        Whether the first line of a csv file names the columns. "auto" says so where that line has text
        above a column of numbers.
    n_features : int, optional
        Number of columns of `X`: a LIBSVM file does not tell how many features there are, only the largest
        that occurs, which is the default. Of the other formats, checked.
    dtype : dtype
        Of `X`: float64 or float32.

    Returns
    -------
    Dataset
        Sparse from LIBSVM text and from sparse matrices, dense otherwise. Labels are float64, or strings
        where a csv or npz file has labels that are not numbers.

    Raises
    ------
    DataFileError
        A ValueError: the file is empty, truncated or malformed, or has missing or infinite values. The
        message names file and line.
    FileNotFoundError
        Where there is no such file.
    ValueError
        Where an argument has no meaning, or none for the format of the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "flowers.csv")
    >>> _ = path.write_text("width,height,class\n1.5,2,iris\n3,4.5,rose\n")
    >>> data = load(path)
    >>> data.X.shape, data.y.tolist(), data.feature_names
    ((2, 2), ['iris', 'rose'], ('width', 'height'))
    >>> folder.cleanup()
    """
    _check_arguments(format, label_column, header)
    checked_width(n_features)
    storage = float_dtype(dtype)
    file = checked_path(path)
    kind = _detect(file) if format == "auto" else format
    if kind != "csv" and (label_column != "auto" or header != "auto"):
        raise ValueError(f"{file}: label_column and header are for csv files, this is {kind}; leave them out")
    if kind == "libsvm":
        X, y = read_libsvm(file, n_features=n_features, dtype=storage)
        return Dataset(X, y, None, str(file))
    if kind == "csv":
        loaded = read_csv(file, label_column=label_column, header=header, dtype=storage)
    else:
        loaded = _load_npz(file, storage)
    if n_features is not None and loaded.X.shape[1] != n_features:
        raise file_error(
            str(file),
            f"has {loaded.X.shape[1]} features, not {n_features}; check n_features and label_column",
        )
    return loaded


def find(name: str) -> Path:
    """Find a real data set by name.

    Parameters
    ----------
    name : str
        Such as "a9a".

    Returns
    -------
    Path
        ``<name>.svm.xz`` in the folder that the environment variable DUALGAP_DATA names.

    Raises
    ------
    FileNotFoundError
        Where the variable is not set, or the folder has no such file.
    """
    folder = os.environ.get(_DATA_VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"data set {name!r}: the environment variable {_DATA_VARIABLE} is not set; "
            f"set it to the folder that holds {name}{_DATA_SUFFIX}"
        )
    path = Path(folder, name + _DATA_SUFFIX)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file in the folder that {_DATA_VARIABLE} names; "
            f"put it there or set {_DATA_VARIABLE} to another folder"
        )
    return path


def _check_arguments(format: object, label_column: object, header: object) -> None:
    if format not in ("auto", *_FORMATS):
        raise ValueError(f"format={format!r} is unknown; use auto, {', '.join(_FORMATS)}")
    if isinstance(label_column, bool) or not (label_column is None or isinstance(label_column, str | int)):
        raise ValueError(f"label_column={label_column!r} is no column; use a name, a number, auto or None")
    if not isinstance(header, bool) and header != "auto":
        raise ValueError(f"header={header!r} is unknown; use auto, True or False")


def _load_npz(path: Path, dtype: np.dtype[Any]) -> Dataset:
    inner, compression = strip_compression(path)
    if compression:
        raise file_error(str(path), f"npz archives are read as they are; decompress it to {inner.name} first")
    return read_npz(path, dtype=dtype)


def _detect(path: Path) -> str:
    by_suffix = _FORMAT_OF_SUFFIX.get(strip_compression(path)[0].suffix.lower())
    if by_suffix is not None:
        return by_suffix
    with open_bytes(path) as stream:
        lines = _first_lines(stream)
    if lines and lines[0].startswith(_ZIP_MAGIC):
        return "npz"
    return "libsvm" if any(_looks_like_libsvm(line) for line in lines) else "csv"


def _first_lines(stream: BinaryIO) -> list[bytes]:
    """Some lines with something on them; the last may be cut, and is then cut between tokens."""
    lines: list[bytes] = []
    while len(lines) < _SAMPLE_LINES and (line := stream.readline(_SAMPLE_LINE_BYTES)):
        if len(line) == _SAMPLE_LINE_BYTES and not line.endswith(b"\n"):
            lines.append(b" ".join(line.split()[:-1]))
            break
        if line.strip():
            lines.append(line)
    return lines


def _looks_like_libsvm(line: bytes) -> bool:
    tokens = line.partition(b"#")[0].split()
    return len(tokens) > 1 and all(_PAIR.fullmatch(token) for token in tokens[1:])

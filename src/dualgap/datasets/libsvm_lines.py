"""Parsing lines of LIBSVM text, ``label index:value index:value ...``, already in memory.

Two parsers share the work. The fast one takes a whole chunk of lines and declines anything unusual. The exact
one then reads the same lines: it finds the fault, and is the definition of what is accepted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dualgap.datasets.libsvm_exact import parse_exact
from dualgap.datasets.libsvm_fast import parse_fast

if TYPE_CHECKING:
    import numpy as np

    from dualgap.datasets.libsvm_rows import Rows

_COMMENT: Final = re.compile(rb"#[^\n]*")
_OTHER_BLANKS_TO_SPACES: Final = bytes.maketrans(b"\t\r\v\f", b"    ")


def parse_lines(text: bytes, *, source: str, first_line: int, n_features: int | None, dtype: np.dtype[Any]) -> Rows:
    """Parse whole lines.

    Parameters
    ----------
    text : bytes
        Lines, each ended by a newline. Comments after '#' and blank lines are skipped.
    source : str
        Name of the file, for messages.
    first_line : int
        Number, in that file, of the first line of `text`.
    n_features : int or None
        Largest index allowed.
    dtype : dtype
        Of the values: float64 or float32.

    Returns
    -------
    Rows
        The samples, in order.

    Raises
    ------
    DataFileError
        For the first line that is not LIBSVM text.
    """
    bare = _COMMENT.sub(b"", text) if b"#" in text else text
    bare = bare.translate(_OTHER_BLANKS_TO_SPACES)
    rows = parse_fast(bare, dtype)
    if rows is None or (n_features is not None and rows.width > n_features):
        rows = parse_exact(bare, source, first_line, n_features, dtype)
    return rows

"""Whether two runs are about the same problem: a hash of data and parameters.

Data are hashed as they are given, byte by byte, because anything computed from them may round differently with another
number of threads. About a gigabyte a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from dualgap.problem import DualQP

# 128 bits: no two problems anybody meets share them.
_BYTES = 16
# Rows hashed at a time where they do not lie one after the other in memory.
_ROWS = 4096


def fingerprint(*things: Any) -> str:
    """A hash of arrays, sparse matrices, numbers, text, functions (by name), and lists and mappings of these.

    Examples
    --------
    >>> import numpy as np
    >>> one, other = np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]])
    >>> fingerprint(one, 3) == fingerprint(one.copy(), 3), fingerprint(one, 3) == fingerprint(other, 3)
    (True, False)
    """
    found = hashlib.blake2b(digest_size=_BYTES)
    for thing in things:
        for piece in _pieces(thing):
            found.update(piece)
    return found.hexdigest()


def problem_fingerprint(problem: DualQP, *, data: bool = True) -> str:
    """The hash of a quadratic program; without `data`, of all but its kernel matrix."""
    p = problem
    vectors = (p.formulation, list(p.columns), p.index, p.sign, p.ridge, p.f0, p.lo, p.hi, p.F, p.e)
    return fingerprint(*vectors, *(_of_gram(p.gram) if data else ()))


def _of_gram(gram: Any) -> list[Any]:
    """What a Gram matrix is made of."""
    if hasattr(gram, "kernel_gram"):  # an approximation: the points that were chosen say which
        return [gram.method, gram.basis, *_of_gram(gram.kernel_gram)]
    if hasattr(gram, "base"):
        return [float(gram.constant), *_of_gram(gram.base)]
    if getattr(gram, "source", None) is not None:
        return _of_gram(gram.source)
    if hasattr(gram, "points"):
        kernel = gram.kernel
        shape = [kernel.name, float(kernel.gamma), float(kernel.coef0), float(kernel.degree), kernel.function]
        return [shape, gram.points.original]
    if hasattr(gram, "constant"):
        return [float(gram.constant), gram.factor]
    if hasattr(gram, "matrix"):
        return [gram.matrix]
    # A Gram matrix from elsewhere: its diagonal is all that is known to be cheap.
    return [type(gram).__qualname__, gram.n, np.asarray(gram.diag())]


def _pieces(thing: Any) -> Iterator[bytes | memoryview]:
    """Bytes of a thing, such that different things have different ones."""
    if sp.issparse(thing):
        yield f"sparse {thing.format} {thing.shape}".encode()
        for part in ("indptr", "indices", "data"):
            yield from _pieces(getattr(thing, part))
    elif isinstance(thing, np.ndarray):
        yield f"array {thing.dtype.str} {thing.shape}".encode()
        if thing.dtype.hasobject:
            for each in thing.ravel():
                yield from _pieces(each)
        elif thing.flags.c_contiguous:
            yield thing.reshape(-1).view(np.uint8).data
        else:
            for first in range(0, thing.shape[0], _ROWS):
                yield np.ascontiguousarray(thing[first : first + _ROWS]).reshape(-1).view(np.uint8).data
    elif isinstance(thing, Mapping):
        yield f"mapping {len(thing)}".encode()
        for key in sorted(thing, key=repr):
            yield from _pieces(key)
            yield from _pieces(thing[key])
    elif isinstance(thing, list | tuple):
        yield f"list {len(thing)}".encode()
        for each in thing:
            yield from _pieces(each)
    elif thing is None or isinstance(thing, str | bytes | bool | int | float | complex | np.generic):
        value = thing.item() if isinstance(thing, np.generic) else thing
        text = f"{value!r}"
        yield f"{type(value).__name__} {len(text)} {text}".encode(errors="surrogatepass")
    else:  # a function has no bytes that are the same tomorrow; its name has
        name = getattr(thing, "__qualname__", type(thing).__qualname__)
        yield f"object {getattr(thing, '__module__', '')} {name}".encode()

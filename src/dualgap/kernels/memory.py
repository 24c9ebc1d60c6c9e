"""Memory for vector code: aligned to cache lines, and scratch that each thread uses again."""

from __future__ import annotations

import mmap
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Budgets in bytes below which large memory has pages of its own, which the system has back as soon as nobody uses them.
# The C library keeps what is freed for the next fit: faster by a tenth, and within a tenth of any larger budget (mnist
# with 60 000 rows and a budget of 100 MB: 78 MB in place of 116).
_SMALL_BUDGET, _LARGE = 150_000_000, 4_000_000
# Bytes of the largest piece that glibc learns from, less what it adds itself (see `_teach_to_keep`).
_LEARNT_FROM = (32 << 20) - 65_536


def within(budget: int, size: int, dtype: Any) -> NDArray[Any]:
    """`aligned` memory for who has a budget to keep."""
    wanted = size * np.dtype(dtype).itemsize
    if budget < _SMALL_BUDGET and wanted >= _LARGE:
        return np.frombuffer(mmap.mmap(-1, wanted), dtype=dtype)
    if budget >= _SMALL_BUDGET:
        _teach_to_keep()
    return aligned(size, dtype)


@cache
def _teach_to_keep() -> None:
    """Have the C library keep what is freed, once a process: fresh pages cost as much as the work that is done in them.

    glibc gives pieces above a threshold, 128 kB at first, pages of their own, and gives these back when they are freed.
    Whenever that happens the threshold grows to the piece's size, and what it keeps to twice that. Until it has seen
    a piece near its upper limit of 32 MB, every fit pays for some thousand new pages, 5 to 10 microseconds each: it
    sees one here, which nobody writes to, so that it costs nothing. Elsewhere this does nothing.
    """
    np.empty(_LEARNT_FROM, dtype=np.uint8)


def aligned(size: int, dtype: Any) -> NDArray[Any]:
    """Uninitialised memory that starts on a cache line, so that no vector straddles two."""
    itemsize = np.dtype(dtype).itemsize
    raw = np.empty(size * itemsize + 64, dtype=np.uint8)
    start = -raw.__array_interface__["data"][0] % 64  # `raw.ctypes` takes five times as long
    return raw[start : start + size * itemsize].view(dtype)


def scratch(purpose: str, size: int, dtype: Any) -> NDArray[Any]:
    """Memory of this thread for one purpose, the same again at the next call: fresh pages cost more than the work.

    Up to `_SCRATCH_KEPT` bytes a purpose are kept; what needs more is allocated.
    """
    wanted = size * np.dtype(dtype).itemsize
    if wanted > _SCRATCH_KEPT:
        return aligned(size, dtype)
    kept = getattr(_scratch, purpose, None)
    if kept is None or kept.size < wanted:
        kept = aligned(2 * wanted, np.uint8)
        setattr(_scratch, purpose, kept)
    return np.asarray(kept[:wanted].view(dtype))


_scratch = threading.local()
_SCRATCH_KEPT = 2_000_000

"""Work shared among threads: compiled code that holds no lock, handed out in pieces.

Python's own threads are used on purpose. Numba's threading layers either cost milliseconds a region while another
process holds a core (OpenMP), cannot be entered by two threads at once (workqueue) or do not survive a fork; a pool of
Python threads starts in some 50 microseconds, and which thread takes a piece never changes its result.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import threadpoolctl
from threadpoolctl import ThreadpoolController


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; looking for them takes milliseconds, so it is done once."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread within a ``with`` statement.

    The limit is the process's own: the first to enter sets it and the last to leave lifts it, whatever their threads.
    """
    global _inside, _limit
    with _entering:
        if _inside == 0:
            _limit = _blas().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _entering:
            _inside -= 1
            if _inside == 0:
                _release()
                _limit.restore_original_limits()
                _release()


def _release() -> None:
    """Give back control over OpenBLAS, which newer versions of threadpoolctl leave with the thread that set a limit."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_entering = threading.Lock()
_inside = 0
_limit: Any = None


_T = TypeVar("_T")

_pools: dict[int, ThreadPoolExecutor] = {}

if hasattr(os, "register_at_fork"):
    # A forked child inherits the pools but not their threads.
    os.register_at_fork(after_in_child=_pools.clear)


def thread_count(n_jobs: int | None) -> int:
    """Number of threads: None and -1 mean all cores this process may use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return available
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; use None or -1 for all cores, or a positive number.")
    return max(1, available + 1 + n_jobs) if n_jobs < 0 else max(1, n_jobs)


def share_parts(
    action: Callable[[int, int], None], count: int, step: int, threads: int, *, last_first: bool = False
) -> None:
    """Run ``action(begin, end)`` for parts of `count` things, `step` at a time, on `threads` threads.

    With `last_first` in the opposite order: the largest parts should not be what is left at the end.
    """
    parts = -(-count // step)

    def run(number: int) -> None:
        part = parts - 1 - number if last_first else number
        action(part * step, min(count, (part + 1) * step))

    share(run, parts, threads)


def share(task: Callable[[int], None], pieces: int, threads: int) -> None:
    """Run ``task(0), ..., task(pieces - 1)`` on `threads` threads, this one among them.

    An error or an interrupt drops the pieces that have not begun, waits for those that have, and is raised here.
    """
    if threads <= 1 or pieces <= 1:
        for piece in range(pieces):
            task(piece)
        return
    left = itertools.count()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not failed and (piece := next(left)) < pieces:
                task(piece)
        except BaseException as error:
            failed.append(error)
            raise

    helpers = min(threads, pieces) - 1
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="dualgap")
    futures = [_pools[threads].submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        for future in futures:
            # Those that never started have nothing to take any more.
            if not future.cancel():
                future.exception()
    for future in futures:
        if not future.cancelled():
            future.result()


def share_in_order(task: Callable[[int], _T], merge: Callable[[_T], None], pieces: int, threads: int) -> None:
    """`share`, with ``merge(task(0)), merge(task(1)), ...`` in this order whatever the threads, one at a time.

    What is added up is then the same for any number of them. A result waits for those before it, and few do.
    """
    merging, waiting, merged = threading.Lock(), {}, 0

    def run(piece: int) -> None:
        nonlocal merged
        result = task(piece)
        with merging:
            waiting[piece] = result
            while merged in waiting:
                merge(waiting.pop(merged))
                merged += 1

    share(run, pieces, threads)

"""Sharing work: every piece once, errors told, no deadlock when nested or forked, BLAS left as it was found."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import ThreadpoolController, threadpool_limits

from dualgap.kernels.threads import one_blas_thread, share, share_in_order, thread_count


@given(st.integers(0, 60), st.integers(1, 8))
def test_every_piece_once(pieces, threads):
    done = []
    share(done.append, pieces, threads)
    assert sorted(done) == list(range(pieces))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_merged_in_order_whoever_is_first(threads):
    merged = []

    def task(piece):
        time.sleep(0.003 if piece % 3 == 0 else 0.0)
        return piece, f"result {piece}"

    share_in_order(task, merged.append, 20, threads)
    assert merged == [(piece, f"result {piece}") for piece in range(20)]


def test_pieces_go_to_several_threads():
    meet = threading.Barrier(3)
    seen = set()

    def task(_piece):
        meet.wait(timeout=20)
        seen.add(threading.get_ident())

    share(task, 3, 3)
    assert len(seen) == 3
    assert threading.get_ident() in seen


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_is_raised_here_and_drops_what_has_not_begun(threads, error):
    done = []

    def task(piece):
        if piece == 3:
            raise error("piece three")
        done.append(piece)
        time.sleep(0.002)

    with pytest.raises(error, match="piece three"):
        share(task, 500, threads)
    assert len(done) < 100
    after = list(done)
    time.sleep(0.02)
    assert done == after  # those that had begun were waited for
    again = []
    share(again.append, 20, threads)
    assert sorted(again) == list(range(20))


def test_an_error_of_a_helper_is_raised_too():
    here, failed = threading.get_ident(), threading.Event()

    def task(_piece):
        if threading.get_ident() != here:
            failed.set()
            raise ValueError("elsewhere")
        failed.wait(timeout=20)

    with pytest.raises(ValueError, match="elsewhere"):
        share(task, 100, 2)


def test_nested_use_does_not_wait_for_itself():
    done = []

    def outer(i):
        def middle(j):
            share(lambda k: done.append((i, j, k)), 3, 2)

        share(middle, 3, 2)

    share(outer, 5, 2)
    assert sorted(done) == [(i, j, k) for i in range(5) for j in range(3) for k in range(3)]


def test_several_callers_at_once():
    sums = [0] * 6

    def caller(number):
        done = []
        for _ in range(20):
            share(done.append, 10, 3)
        sums[number] = sum(done)

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=30)
    assert sums == [20 * 45] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_shares_work_too():
    share(lambda piece: time.sleep(0.001), 8, 3)  # the threads exist, and the child will not have them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover
        code = 1
        try:
            signal.alarm(20)  # a deadlock ends here
            meet, done = threading.Barrier(3), []
            share(lambda piece: done.append((piece, meet.wait(timeout=10))), 3, 3)
            share(lambda piece: done.append((piece, 0)), 40, 3)
            code = 0 if len(done) == 43 else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_the_interpreter_ends_while_its_pools_live():
    script = "from dualgap.kernels.threads import share; share(lambda i: None, 50, 4); print('done')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "done"
    assert run.returncode == 0


def test_thread_count():
    everything = thread_count(None)
    assert everything >= 1
    assert thread_count(-1) == everything
    assert thread_count(3) == 3
    assert thread_count(-1000) == 1
    with pytest.raises(ValueError, match="n_jobs == 0 has no meaning"):
        thread_count(0)


# -- BLAS --------------------------------------------------------------------------------------------------------


def blas_threads():
    return [library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"]


@pytest.fixture
def several_blas_threads():
    found = blas_threads()
    if max(found, default=1) == 1:
        pytest.skip("BLAS has one thread: nothing to limit")
    yield found
    if blas_threads() != found:  # a failed test must not fail the next one
        repair = threading.Thread(target=lambda: ThreadpoolController().limit(limits=max(found), user_api="blas"))
        repair.start()
        repair.join()


def test_blas_is_limited_within_and_as_before_after(several_blas_threads):
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == several_blas_threads


def test_the_limit_is_lifted_after_an_error(several_blas_threads):
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert blas_threads() == several_blas_threads


def test_a_limit_of_the_users_own_is_kept(several_blas_threads):
    with threadpool_limits(limits=1, user_api="blas"):
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == several_blas_threads


def test_other_threads_may_set_limits_afterwards(several_blas_threads):
    """threadpoolctl gives one thread control over OpenBLAS: it must be given back."""
    with one_blas_thread():
        pass
    seen = []

    def limit():
        with threadpool_limits(limits=1, user_api="blas"):
            seen.append(set(blas_threads()))

    worker = threading.Thread(target=limit)
    worker.start()
    worker.join(timeout=30)
    assert seen == [{1}]
    assert blas_threads() == several_blas_threads


def test_the_last_of_several_threads_lifts_the_limit(several_blas_threads):
    """The first to enter is the first to leave, and lives on."""
    seen = []
    turns = [threading.Event() for _ in range(8)]

    def inside(number):
        turns[number].wait(timeout=20)  # enter one after the other
        with one_blas_thread():
            turns[number + 1].set()
            turns[number + 3].wait(timeout=20)  # and leave in the same order
            seen.append(set(blas_threads()))
        turns[number + 4].set()
        turns[7].wait(timeout=20)

    workers = [threading.Thread(target=inside, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    turns[0].set()
    turns[6].wait(timeout=20)
    after = blas_threads()
    turns[7].set()
    for worker in workers:
        worker.join(timeout=30)
    assert seen == [{1}] * 3
    assert after == several_blas_threads

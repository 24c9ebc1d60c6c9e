"""Shared settings: Hypothesis profiles, Numba's cache, and the real data where there is any."""

import fcntl
import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numba.core.caching import IndexDataCacheFile

# Deadlines would time the JIT; derandomised so that a failure is seen by everybody.
settings.register_profile(
    "dualgap",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("dualgap")


# A parent in the background has the signal ignored, and passes that on; tests of interrupts send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Numba chooses the next free file name for what it has compiled, and another worker that compiles the same function for
# other types at the same moment chooses the same one: from then on one of the two loads the other's machine code.
# Workers take turns.
_save_unguarded = IndexDataCacheFile.save
_TURN = Path(tempfile.gettempdir()) / f"dualgap-tests-{os.getuid()}.lock"


def _save_in_turn(self, key, data):
    with _TURN.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        _save_unguarded(self, key, data)


IndexDataCacheFile.save = _save_in_turn


@pytest.fixture(scope="session")
def data_folder():
    """The folder with the real data sets, or a skip that says why."""
    folder = os.environ.get("DUALGAP_DATA")
    if not folder:
        pytest.skip("DUALGAP_DATA is not set: this test needs a real data set")
    return folder


@pytest.fixture(autouse=True)
def seeded():
    """NumPy's global generator, from which LIBLINEAR takes its order where `random_state` is None, starts anew."""
    np.random.seed(0)  # noqa: NPY002

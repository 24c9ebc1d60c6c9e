"""Shared settings: Hypothesis profiles, and the real data where there is any."""

import os
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Deadlines would time the JIT; derandomised so that a failure is seen by everybody.
settings.register_profile(
    "dualgap",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("dualgap")


# A parent in the background has the signal ignored, and passes that on; tests of interrupts send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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

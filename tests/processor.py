"""Seconds that a process has used itself: other tests that share the cores do not change them."""

import psutil


def processor_seconds(pid):
    """Of all its threads, up to now."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system

"""Memory for vector code: where it starts, and whose it is afterwards."""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from dualgap.kernels.memory import aligned, within


def _huge_pages_everywhere() -> bool:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text()


@pytest.mark.parametrize("budget", [10**6, 10**10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("size", [1, 1000, 3_000_001])
def test_memory_starts_on_a_cache_line_and_can_be_written(size, dtype, budget):
    for memory in (aligned(size, dtype), within(budget, size, dtype)):
        assert memory.shape == (size,)
        assert memory.dtype == dtype
        assert memory.__array_interface__["data"][0] % 64 == 0
        memory[:] = 7
        assert memory[0] == memory[-1] == 7


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell how much memory is held")
def test_a_small_budget_has_its_memory_given_back_at_once():
    def held() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    memory = within(10**8, 10_000_000, np.float32)
    memory[:] = 1.0
    before = held()
    del memory
    assert before - held() > 35_000_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how memory is kept is known of glibc alone")
@pytest.mark.skipif(_huge_pages_everywhere(), reason="this system has huge pages everywhere: too few to be counted")
def test_what_is_freed_is_kept_from_the_first_fit_on():
    """Left alone, glibc gives the first pieces of each size back, and a process touches new pages fit after fit."""
    code = """
        import resource, sys
        import numpy as np
        from dualgap.kernels.memory import within

        def pages():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            np.ones(3_000_000, dtype=np.uint8)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        within(int(sys.argv[1]), 1000, np.float32)
        print(pages(), pages())
    """

    def counted(budget: int) -> list[int]:
        command = [sys.executable, "-c", textwrap.dedent(code), str(budget)]
        return [int(word) for word in subprocess.run(command, capture_output=True, check=True).stdout.split()]

    first, second = counted(10**9)
    assert first > 500
    assert second < 50
    assert counted(10**8)[1] > 500  # small budgets leave the C library as it is

"""Thousands of spoilt files a reader: each is read or refused as documented, with bounded time and memory."""

from __future__ import annotations

import random
import sys
import tracemalloc
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fuzzing import READERS, attempt, mutated, seeds

# Mutations of each reader, by what reading one of its files takes.
COUNTS = {"native": 1200, "npz data": 1000}
USUAL = 2000
# New samples are predicted for one in so many models that are accepted.
PREDICTED = 10


@pytest.fixture(scope="module")
def good():
    return seeds()


@pytest.mark.parametrize("name", READERS)
def test_good_files_are_read(tmp_path, good, name):
    for content in good[name]:
        path = tmp_path / f"good{READERS[name][2]}"
        path.write_bytes(content)
        assert attempt(name, path, predict=True)


@pytest.mark.parametrize("name", READERS)
def test_spoilt_files_are_read_or_refused(tmp_path, good, name):
    chance = random.Random(f"spoilt {name}")
    path = tmp_path / f"spoilt{READERS[name][2]}"
    accepted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(COUNTS.get(name, USUAL)):
            content = mutated(chance.choice(good[name]), chance, good[name])
            path.write_bytes(content)
            try:
                accepted += attempt(name, path, predict=number % PREDICTED == 0)
            except Exception as error:
                raise AssertionError(f"mutation {number} of {name}: {content!r}") from error
    assert 0 < accepted < number


@pytest.mark.parametrize("name", READERS)
def test_memory_is_in_proportion_to_the_file(tmp_path, good, name):
    chance = random.Random(f"memory {name}")
    path = tmp_path / f"spoilt{READERS[name][2]}"
    tracemalloc.start()
    try:
        for _ in range(60):
            path.write_bytes(mutated(chance.choice(good[name]), chance, good[name]))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            attempt(name, path)
            assert tracemalloc.get_traced_memory()[1] - before < 32 * 2**20
    finally:
        tracemalloc.stop()

"""Spoilt files, as many as asked for, for every reader; prints how many, how fast, and every failure.

    python benchmarks/fuzz_readers.py [--count 100000] [--seed 0] [--keep FOLDER] [--reader NAME ...]

A failure is anything but a result or the reader's one documented exception: another exception, more than SECONDS for a
file, or more memory than MEMORY above what the process has at the start (a MemoryError then). With --keep the files
that fail are written to the folder.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "formats"))
from fuzzing import READERS, attempt, mutated, seeds

SECONDS = 5.0
MEMORY = 1 << 30
# One in so many models that are accepted has to predict as well, which takes longer than reading.
PREDICTED = 20
# Files are written to memory where the system has such a folder.
FAST_FOLDER = "/dev/shm"


class TooSlowError(Exception):
    """A file has taken longer than it may."""


def too_slow(signum, frame):
    raise TooSlowError(f"more than {SECONDS} s")


def limit_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def run(name, good, count, chance, path, keep):
    """Counts of what readers answered, and the failures by what they were."""
    answers, failures = Counter(), {}
    for number in range(count):
        content = mutated(chance.choice(good), chance, good)
        path.write_bytes(content)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            answers[attempt(name, path, predict=number % PREDICTED == 0)] += 1
        except Exception as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__}: {str(error)[:120]} ({Path(place.filename).name}:{place.lineno})"
            failures.setdefault(kind, []).append(number)
            if keep is not None and len(failures[kind]) <= 3:
                (keep / f"{name.replace(' ', '-')}-{len(failures)}-{number}{path.suffix}").write_bytes(content)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return answers, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="files in all, shared among the readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the files that fail")
    parser.add_argument("--reader", action="append", choices=READERS, help="only these readers")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    names = arguments.reader or list(READERS)
    good = seeds()
    share = -(-arguments.count // len(names))
    signal.signal(signal.SIGALRM, too_slow)
    limit_memory()
    folder = FAST_FOLDER if Path(FAST_FOLDER).is_dir() else None
    total, failed, start = 0, 0, time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for name in names:
            begin = time.perf_counter()
            chance = random.Random(f"{arguments.seed} {name}")
            path = Path(place, f"spoilt{READERS[name][2]}")
            answers, failures = run(name, good[name], share, chance, path, arguments.keep)
            seconds = time.perf_counter() - begin
            total += share
            bad = sum(map(len, failures.values()))
            failed += bad
            print(
                f"{name:16} {share:9} files  {answers[True]:8} read  {answers[False]:8} refused  {bad:6} failed  "
                f"{share / seconds:7.0f} a second",
                flush=True,
            )
            for kind, numbers in failures.items():
                print(f"    {len(numbers)} x {kind}; first: file {numbers[0]}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{total} files in {seconds:.0f} s, {total / seconds:.0f} a second, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

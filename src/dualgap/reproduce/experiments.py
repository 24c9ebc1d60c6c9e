"""The experiments by name, and how long each may take."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from dualgap.bench.machine import describe_machine, describe_versions
from dualgap.reproduce.clock import Clock
from dualgap.reproduce.record import Record

# Seconds of a full and of a short run: 90 and under 10 minutes for all together.
LIMITS: dict[str, tuple[float, float]] = {
    "rosen": (1200.0, 100.0),
    "sesop": (1000.0, 100.0),
    "lecture": (900.0, 110.0),
    "dcd": (900.0, 90.0),
    "mpd": (1300.0, 100.0),
}
ALL = "all"


def select(name: str) -> tuple[str, ...]:
    """The experiments that a name means.

    Raises
    ------
    ValueError
        Where it means none.
    """
    if name == ALL:
        return tuple(LIMITS)
    if name not in LIMITS:
        raise ValueError(f"Unknown experiment {name!r}; choose one of {', '.join(LIMITS)} or {ALL}.")
    return (name,)


def check_data(name: str, *, quick: bool) -> None:
    """Raise FileNotFoundError, naming DUALGAP_DATA, where a data set of the experiment is missing."""
    from dualgap.reproduce.samples import check

    check(import_module(f"dualgap.reproduce.{name}").files(quick))


def run(name: str, *, quick: bool, tell: Callable[[str], None] | None = None) -> Record:
    """Run one experiment.

    Parameters
    ----------
    name : str
        A key of `LIMITS`.
    quick : bool
        The short run.
    tell : callable or None
        Called with what is being done.
    """
    (chosen,) = select(name)
    clock = Clock(LIMITS[chosen][quick], tell)
    record: Record = import_module(f"dualgap.reproduce.{chosen}").run(quick, clock)
    record.notes.extend(clock.notes)
    record.seconds = clock.elapsed()
    record.machine, record.versions = describe_machine(), describe_versions()
    return record

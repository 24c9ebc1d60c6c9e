"""The experiments by name, and how long each may take."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from dualgap.bench.machine import describe_machine, describe_versions, today
from dualgap.reproduce.clock import Clock
from dualgap.reproduce.record import Record

# Seconds of a full and of a short run: 55 and under 9 minutes for all together, compiling apart. What they take on two
# idle cores is about two thirds of it; an experiment that would take longer is cut, and its record says where.
LIMITS: dict[str, tuple[float, float]] = {
    "rosen": (650.0, 100.0),
    "sesop": (850.0, 100.0),
    "lecture": (400.0, 110.0),
    "dcd": (750.0, 90.0),
    "mpd": (650.0, 100.0),
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
    record.parts = {part: round(seconds, 1) for part, seconds in clock.spent.items()}
    record.date, record.machine, record.versions = today(), describe_machine(), describe_versions("papers")
    return record

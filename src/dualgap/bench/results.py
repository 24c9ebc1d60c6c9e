"""What a comparison found, as plain data, and the JSON file that keeps it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

FORMAT = "dualgap bench kernel"
# To be raised when a reader of the old file would misunderstand the new one.
_SCHEMA = 1


@dataclass
class Runs:
    """Repeated fits of one library with one setting.

    Attributes
    ----------
    library, precision : str
        Who, and the dtype of its samples.
    goal : dict
        ``{"tol": ...}`` or ``{"gap_tol": ...}``; empty where nothing was run.
    times : list of float
        Seconds of every fit.
    gaps : list of float
        Relative duality gap of every fit, computed by the harness.
    support, entries : int
        Support vectors of the last fit, and kernel values between them and the samples.
    repaired : float
        Largest violation of the constraints that had to be repaired for the score.
    reason : str
        Why there is no result; empty where there is one.
    """

    library: str
    precision: str
    goal: dict[str, float] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    support: int = 0
    entries: int = 0
    repaired: float = 0.0
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """The median time, None without a result."""
        return median(self.times) if self.times and not self.reason else None

    @property
    def gap(self) -> float | None:
        """The smallest gap of the runs, which is the hardest to match; None without a result."""
        return min(self.gaps) if self.gaps and not self.reason else None


@dataclass
class Comparison:
    """A peer and dualgap at the gap that the peer reached, or at a common goal."""

    peer: Runs
    ours: Runs

    @property
    def ratio(self) -> float | None:
        """How many times the peer takes of our time; None where one of them has no result."""
        theirs, mine = self.peer.seconds, self.ours.seconds
        return None if theirs is None or mine is None or mine <= 0.0 else theirs / mine


@dataclass
class ProblemResult:
    """Everything about one problem.

    Attributes
    ----------
    name, title, remark : str
        From `problems.Problem`.
    extra : bool
        Whether it belongs below the others.
    n, d : int
        Samples and features.
    default : list of Comparison
        Peers at their default tolerance.
    tight : list of Comparison
        Everybody at a common gap; empty where there was no second table.
    warm_up : dict
        Seconds that "library precision" took to compile, load and fit a part once.
    memory : dict
        Bytes that dualgap's process grew by beyond its data, by precision.
    floor, entry_nanoseconds : float or None
        Seconds for the kernel values between samples and support vectors, and what one of them was measured to cost.
    product_nanoseconds : float or None
        What BLAS takes in float32 for the inner product alone.
    history : dict
        By precision: seconds and believed gaps of dualgap's tightest run.
    """

    name: str
    title: str
    n: int
    d: int
    extra: bool = False
    remark: str = ""
    default: list[Comparison] = field(default_factory=list)
    tight: list[Comparison] = field(default_factory=list)
    warm_up: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    floor: float | None = None
    entry_nanoseconds: float | None = None
    product_nanoseconds: float | None = None
    history: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def headline(self, precision: str = "float64") -> Runs | None:
        """Our runs against the best peer at its default tolerance."""
        best = best_peer(self.default, precision)
        if best is not None:
            return best.ours
        return next((c.ours for c in self.default if c.ours.precision == precision and c.ours.times), None)


@dataclass
class Report:
    """All problems, where and with what they were run."""

    machine: dict[str, Any]
    versions: dict[str, str | None]
    settings: dict[str, Any]
    problems: list[ProblemResult] = field(default_factory=list)


def best_peer(comparisons: list[Comparison], precision: str) -> Comparison | None:
    """The comparison with the fastest peer of this input precision (by its time, not by the ratio)."""
    usable = [c for c in comparisons if c.peer.precision == precision and c.ratio is not None]
    return min(usable, key=lambda c: c.peer.seconds or math.inf, default=None)


def write_report(report: Report, path: Path) -> None:
    """Write the file, all at once."""
    from dualgap.formats.atomic import atomic_write

    content = {"format": FORMAT, "schema": _SCHEMA, **asdict(report)}
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def read_report(path: Path) -> Report:
    """Read what `write_report` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["schema"] != _SCHEMA:
            raise ValueError
        problems = [_problem(entry) for entry in content["problems"]]
        return Report(content["machine"], content["versions"], content["settings"], problems)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: is not a file that this version's '{FORMAT} --json' wrote.") from None


def _problem(entry: dict[str, Any]) -> ProblemResult:
    sides = {side: [_comparison(c) for c in entry[side]] for side in ("default", "tight")}
    history = {precision: [(s, g) for s, g in points] for precision, points in entry["history"].items()}
    return ProblemResult(**{**entry, **sides, "history": history})


def _comparison(entry: dict[str, Any]) -> Comparison:
    return Comparison(Runs(**entry["peer"]), Runs(**entry["ours"]))


def check_same(old: Report, new: Report, path: Path) -> None:
    """Results of another machine, of other versions or settings are not to be mixed with these."""
    for part in ("machine", "versions", "settings"):
        before, now = getattr(old, part), json.loads(json.dumps(getattr(new, part)))
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"--resume {path}: was made with {name} {before.get(name)}, and this is {now.get(name)}; "
                    f"name another file, or remove this one."
                )

"""What a comparison found, as plain data, and the JSON file that keeps it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from dualgap.bench.machine import today

if TYPE_CHECKING:
    from dualgap.bench.scoring import Score
    from dualgap.bench.worker import Answer

# To be raised when a reader of the old file would misunderstand the new one.
_SCHEMA = 2


@dataclass
class Runs:
    """Repeated fits of one library with one setting.

    Attributes
    ----------
    library, precision : str
        Who, and the dtype of its samples.
    goal : dict
        ``{"tol": ...}`` (and limits of iterations) or ``{"gap_tol": ...}``; empty where nothing was run.
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
    certified : list of float
        Of dualgap, where the gaps above are measured against a reference: its own duality gap of every fit.
    warning : str
        What the library warned of: that its iterations ran out.
    solver : str
        Which of its solvers the library took, where it says so.
    stopped : float or None
        Seconds after which the search for a tolerance that reaches the gap was given up: one fit took longer.
    peak : int or None
        The most memory that its process held in a fit, data and code included, in bytes.
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
    certified: list[float] = field(default_factory=list)
    warning: str = ""
    solver: str = ""
    stopped: float | None = None
    peak: int | None = None

    def add(self, answer: Answer, score: Score) -> None:
        """Note a fit and what the judge says of it."""
        self.times.append(answer.seconds)
        self.gaps.append(score.gap)
        self.support, self.entries = score.support, score.entries
        self.repaired = max(self.repaired, score.repaired)
        if score.certified is not None:
            self.certified.append(score.certified)
        self.warning = self.warning or answer.warning
        self.solver = answer.solution.solver
        self.saw(answer.peak)

    def saw(self, peak: int | None) -> None:
        """Note how much memory a fit took."""
        if peak is not None:
            self.peak = max(self.peak or 0, peak)

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

    @property
    def at_least(self) -> float | None:
        """How many times our time the peer had when it was given up; None where it was not."""
        mine, had = self.ours.seconds, self.peer.stopped
        return None if had is None or not mine else had / mine


@dataclass
class Compared:
    """What every comparison says of a problem.

    Attributes
    ----------
    name, title, remark : str
        Of the problem.
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
    history: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def headline(self, precision: str = "float64") -> Runs | None:
        """Our runs against the best peer at its default tolerance."""
        best = best_peer(self.default, precision)
        if best is not None:
            return best.ours
        return next((c.ours for c in self.default if c.ours.precision == precision and c.ours.times), None)


@dataclass
class ProblemResult(Compared):
    """Everything about one kernel problem.

    Attributes
    ----------
    memory : dict
        Bytes that dualgap's process grew by beyond its data, by precision.
    floor, entry_nanoseconds : float or None
        Seconds for the kernel values between samples and support vectors, and what one of them was measured to cost.
    product_nanoseconds : float or None
        What BLAS takes in float32 for the inner product alone.
    """

    memory: dict[str, int] = field(default_factory=dict)
    floor: float | None = None
    entry_nanoseconds: float | None = None
    product_nanoseconds: float | None = None


@dataclass
class LinearResult(Compared):
    """Everything about one linear problem.

    Attributes
    ----------
    precision : str
        The dtype of its samples.
    nonzeros : int
        Entries of the samples that are stored.
    reference : dict
        The run that everybody is measured against: its certified "dual" and "gap", and its "seconds".
    spread : list of Runs
        Fits to the common gap, each time from another seed; empty where none were asked for.
    """

    precision: str = "float64"
    nonzeros: int = 0
    reference: dict[str, float] = field(default_factory=dict)
    spread: list[Runs] = field(default_factory=list)


_RESULT: dict[str, type[Compared]] = {"kernel": ProblemResult, "linear": LinearResult, "l1": Compared}


@dataclass
class Report:
    """All problems, where, when and with what they were run; `kind` is the command that did it.

    `left_out` names the problems that were asked for and not begun for lack of time.
    """

    machine: dict[str, Any]
    versions: dict[str, str | None]
    settings: dict[str, Any]
    problems: list[Any] = field(default_factory=list)
    kind: str = "kernel"
    left_out: list[str] = field(default_factory=list)
    date: str = field(default_factory=today)


def best_peer(comparisons: list[Comparison], precision: str) -> Comparison | None:
    """The comparison with the fastest peer of this input precision (by its time, not by the ratio)."""
    usable = [c for c in comparisons if c.peer.precision == precision and c.ratio is not None]
    return min(usable, key=lambda c: c.peer.seconds or math.inf, default=None)


def write_report(report: Report, path: Path) -> None:
    """Write the file, all at once."""
    from dualgap.atomic import atomic_write

    parts = asdict(report)
    content = {"format": _format(parts.pop("kind")), "schema": _SCHEMA, **parts}
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def read_report(path: Path, kind: str = "kernel") -> Report:
    """Read what `write_report` wrote of a comparison of this kind."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _format(kind) or content["schema"] != _SCHEMA:
            raise ValueError
        problems = [_problem(entry, kind) for entry in content["problems"]]
        return Report(
            content["machine"],
            content["versions"],
            content["settings"],
            problems,
            kind,
            content["left_out"],
            content["date"],
        )
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: is not a file that this version's '{_format(kind)} --json' wrote.") from None


def _format(kind: str) -> str:
    return f"dualgap bench {kind}"


def _problem(entry: dict[str, Any], kind: str) -> Compared:
    parts: dict[str, Any] = {side: [_comparison(c) for c in entry[side]] for side in ("default", "tight")}
    parts["history"] = {precision: [(s, g) for s, g in points] for precision, points in entry["history"].items()}
    if "spread" in entry:
        parts["spread"] = [Runs(**runs) for runs in entry["spread"]]
    return _RESULT[kind](**{**entry, **parts})


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

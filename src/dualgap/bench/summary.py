"""What the comparisons come to, small enough for the first page: ratios by problem, their means, and both as Markdown.

``dualgap bench all --output DIR`` keeps the whole of each comparison in a file of its own and this summary of all in
``bench.json``; the tables that documents show are made of that file by `markdown`, and of nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from dualgap.bench.results import best_peer
from dualgap.bench.tables import bound_text, geometric_mean, in_seconds

if TYPE_CHECKING:
    from dualgap.bench.results import Compared, Comparison, Report, Runs

SUMMARY, PAGE = "bench.json", "bench.html"
FORMAT, _SCHEMA = "dualgap bench all", 2
# Whose ratios are averaged, for which input; None is the fastest peer of each problem.
_OVER: dict[str, tuple[tuple[str | None, str], ...]] = {
    "kernel": ((None, "float64"), (None, "float32"), ("scikit-learn", "float64"), ("libsvm", "float64")),
    "linear": ((None, "float64"), ("scikit-learn", "float64"), ("liblinear", "float64")),
}
# Each loss of L1 machines has peers of its own: how the titles of their problems begin.
_FAMILIES = {"hinge": "L1 hinge ", "squared hinge": "L1 squared_hinge "}
TITLES = {"kernel": "Kernel machines", "linear": "Linear machines", "l1": "L1 machines (processor time)"}
_NOTHING = "–"
_QUANTILES = ("least", "median", "largest")


def file_of(kind: str) -> str:
    """The file that keeps the whole of a comparison."""
    return f"bench-{kind}.json"


def summarise(reports: Mapping[str, Report]) -> dict[str, Any]:
    """The summary of these comparisons, ready for JSON."""
    return {
        "format": FORMAT,
        "schema": _SCHEMA,
        "parts": {kind: _part(kind, report) for kind, report in reports.items()},
    }


def _part(kind: str, report: Report) -> dict[str, Any]:
    settings = report.settings
    return {
        "date": report.date,
        "machine": report.machine,
        "versions": report.versions,
        "settings": {name: settings.get(name) for name in ("repeat", "gap", "limit", "cap", "threads", "cache_size")},
        "left_out": report.left_out,
        "problems": [_problem(kind, result) for result in report.problems],
        "means": [mean for mean in _means(kind, report.problems) if mean is not None],
    }


def _means(kind: str, problems: Sequence[Compared]) -> list[dict[str, Any] | None]:
    if kind != "l1":
        return [_mean(problems, over, precision, named=kind == "linear") for over, precision in _OVER[kind]]
    found = []
    for loss, title in _FAMILIES.items():
        mean = _mean([one for one in problems if one.title.startswith(title)], None, "float64", named=False)
        found.append(mean and {**mean, "over": f"{mean['over']}, {loss}"})
    return found


def _problem(kind: str, result: Compared) -> dict[str, Any]:
    precision = getattr(result, "precision", "float64")
    # At default tolerance peers of linear machines reach gaps far apart: there the usual one stands for them.
    usual = [c for c in result.default if c.peer.library == "scikit-learn" and c.ratio is not None]
    default = best_peer(result.default, precision) if kind == "kernel" else next(iter(usual), None)
    return {
        "name": result.name,
        "title": result.title,
        "n": result.n,
        "d": result.d,
        "extra": result.extra,
        "default": _pair(default),
        "tight": _pair(best_peer(result.tight, precision) or _given_up(result.tight, precision)),
        "seeds": [_seeds(one) for one in getattr(result, "spread", []) if one.times and not one.reason],
    }


def _seeds(runs: Runs) -> dict[str, Any]:
    """Times to the common gap from one seed after the other."""
    times = runs.times
    return {
        "library": runs.library,
        "seeds": len(times),
        "least": min(times),
        "median": median(times),
        "largest": max(times),
    }


def _given_up(comparisons: list[Comparison], precision: str) -> Comparison | None:
    """Where nobody reached the gap: whoever was ended at the cap, else a comparison that has our time at least."""
    mine = [c for c in comparisons if c.peer.precision == precision]
    capped = (c for c in mine if c.at_least is not None)
    return next(capped, next((c for c in mine if c.ours.seconds is not None), None))


def _pair(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "peer": comparison.peer.library,
        "peer_seconds": comparison.peer.seconds,
        "peer_gap": comparison.peer.gap,
        "seconds": comparison.ours.seconds,
        "gap": comparison.ours.gap,
        "ratio": comparison.ratio,
        "at_least": comparison.at_least,
        "reason": comparison.peer.reason,
    }


def _mean(problems: Sequence[Compared], over: str | None, precision: str, *, named: bool) -> dict[str, Any] | None:
    """The geometric means over one peer on both sides; None where there is neither."""
    found: dict[str, Any] = {"over": over or "the fastest peer", "precision": precision}
    for side in ("default", "tight"):
        ratios, bounds = [], []
        for result in problems:
            if result.extra:
                continue
            comparisons: list[Comparison] = getattr(result, side)
            mine = [c for c in comparisons if over in (None, c.peer.library) and c.peer.precision == precision]
            best = best_peer(mine, precision)
            if best is not None and best.ratio is not None:
                ratios.append(best.ratio)
            elif found_bounds := [c.at_least for c in mine if c.at_least is not None]:
                bounds.append(min(found_bounds))  # whoever else is there failed before, and would never get there
        if named and over is None and side == "default":
            ratios = []  # no gap in common, no fastest one
        found[side] = {"mean": geometric_mean(ratios), "least": min(ratios), "count": len(ratios)} if ratios else None
        found[f"{side}_bounds"] = (
            {"mean": geometric_mean(ratios + bounds), "count": len(bounds)} if bounds and side == "tight" else None
        )
    return found if found["default"] or found["tight"] or found["tight_bounds"] else None


def read_summary(path: Path) -> dict[str, Any]:
    """The summary that `summarise` made.

    Raises
    ------
    ValueError
        Where the file holds something else.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] == FORMAT and content["schema"] == _SCHEMA:
            return content
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(f"{path}: is not a file that this version's '{FORMAT} --output' wrote.")


def write_summary(summary: Mapping[str, Any], path: Path) -> None:
    """Write the file, all at once."""
    from dualgap.atomic import atomic_write

    with atomic_write(path) as file:
        file.write(json.dumps(summary, indent=1).encode() + b"\n")


def section(folder: Path) -> str:
    """The part of a folder's contents that is about the comparison; empty where it holds none."""
    path = folder / SUMMARY
    if not path.exists():
        return ""
    summary = read_summary(path)
    pictures = [f"bench-{kind}.svg" for kind in summary["parts"]]
    shown = "\n".join(f"![Gap against time]({name})\n" for name in pictures if (folder / name).exists())
    return f"## Beside other libraries\n\n[All tables]({PAGE})\n\n{markdown(summary)}\n{shown}"


def markdown(summary: Mapping[str, Any], *, problems: bool = True) -> str:
    """The summary as tables: the means of each comparison, then its problems where `problems` are wanted as well."""
    parts = summary["parts"].items()
    return "\n".join(_part_markdown(kind, part, problems=problems) for kind, part in parts if part["problems"])


def _part_markdown(kind: str, part: Mapping[str, Any], *, problems: bool) -> str:
    settings = part["settings"]
    gap = "" if settings["gap"] is None else f"relative gap {settings['gap']:g}"
    machine = part["machine"]
    lines = [
        f"**{TITLES[kind]}** ({machine['processor']}, {machine['cores']} cores; dualgap "
        f"{part['versions']['dualgap']}; {part['date']}). Ratios are the peer's time over dualgap's: above 1, dualgap "
        "is faster.\n",
        _means_table(part["means"], gap),
    ]
    if problems:
        lines.append(_problem_table(part["problems"], gap, kind))
        if any(one["seeds"] for one in part["problems"]):
            lines.append(_seed_table(part["problems"], gap))
    if part["left_out"]:
        lines.append(f"Not run for lack of time: {', '.join(part['left_out'])}.\n")
    return "\n".join(lines)


def _means_table(means: list[dict[str, Any]], gap: str) -> str:
    usual = any(mean["default"] for mean in means)
    headings = ["geometric mean over", *(["default tolerance"] if usual else []), *([gap] if gap else [])]
    rows = []
    for mean in means:
        cells = [f"{mean['over']}, {mean['precision']} input"]
        cells += [mean_cell(mean["default"])] if usual else []
        rows.append(cells + ([mean_cell(mean["tight"], mean["tight_bounds"])] if gap else []))
    return _table(headings, rows)


def mean_cell(mean: Mapping[str, Any] | None, bounds: Mapping[str, Any] | None = None) -> str:
    """A mean in a cell: of how many problems, the least of them, and its bound with those that ended at the cap."""
    beyond = f"at least {bounds['mean']:.1f} with {bounds['count']} ended at the cap" if bounds else ""
    if mean is None:
        return beyond or _NOTHING
    problems = "problem" if mean["count"] == 1 else "problems"
    cell = f"{mean['mean']:.1f} ({mean['count']} {problems}, least {mean['least']:.2f})"
    return f"{cell}; {beyond}" if beyond else cell


def _problem_table(problems: list[dict[str, Any]], gap: str, kind: str) -> str:
    usual = kind != "l1"
    headings = ["problem", "machine", "n x d"]
    headings += ["dualgap", "fastest peer" if kind == "kernel" else "scikit-learn", "ratio"] if usual else []
    headings += [f"dualgap, {gap}", "fastest peer", "ratio"] if gap else []
    rows = []
    for one in problems:
        cells = [one["name"], one["title"], f"{one['n']} x {one['d']}", *(_pair_cells(one["default"]) if usual else [])]
        rows.append(cells + (_pair_cells(one["tight"]) if gap else []))
    return _table(headings, rows)


def _seed_table(problems: list[dict[str, Any]], gap: str) -> str:
    """The times above are those of one seed: here is how far others are from them."""
    rows = [
        [one["name"], runs["library"], str(runs["seeds"]), *(f"{in_seconds(runs[k])} s" for k in _QUANTILES)]
        for one in problems
        for runs in one["seeds"]
    ]
    return _table([f"{gap}, from several seeds", "library", "seeds", *_QUANTILES], rows)


def _pair_cells(pair: Mapping[str, Any] | None) -> list[str]:
    if pair is None:
        return [_NOTHING] * 3
    ours = _NOTHING if pair["seconds"] is None else f"{in_seconds(pair['seconds'])} s"
    if pair["ratio"] is not None:
        return [ours, f"{in_seconds(pair['peer_seconds'])} s ({pair['peer']})", f"{pair['ratio']:.1f}"]
    if pair["at_least"] is not None:
        return [ours, "ended at the cap", f"> {bound_text(pair['at_least'])}"]
    return [ours, "nobody got there", _NOTHING]


def _table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)

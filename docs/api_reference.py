"""Write docs/api.md from the docstrings of the public names: ``python docs/api_reference.py``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import dualgap

OUT = Path(__file__).with_name("api.md")
GROUPS = {
    "Kernel machines": ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD"),
    "Linear machines": ("LinearSVC", "LinearSVR", "LinearOneClassSVM", "LinearSVDD"),
    "Choosing parameters": (
        "SVCSearchCV", "SVRSearchCV", "LinearSVCSearchCV", "tune_primal", "PrimalTuning", "svm_path", "PathResult",
    ),
    "Looking at results": ("report", "ConvergenceDisplay", "PathDisplay", "MarginDisplay", "SearchDisplay"),
    "Models that travel": ("save", "load", "from_sklearn", "patch_sklearn", "unpatch_sklearn"),
    "Data larger than memory": (
        "stream_libsvm", "stream_rows", "stream_blocks", "RowBlocks", "solve_streamed", "StreamedResult",
    ),
}  # fmt: skip
REST = "The workbench"
_HEADER = re.compile(r"^(\w[\w ]*)\n-+$", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The sections of a numpydoc docstring, what comes before the first one under the empty name."""
    parts = _HEADER.split(text)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(body: str) -> list[tuple[str, str]]:
    """Names with their types, and what is said of them."""
    found: list[tuple[str, list[str]]] = []
    for line in body.strip("\n").splitlines():
        if line and not line.startswith(" "):
            found.append((line.strip(), []))
        elif line.strip() and found:
            found[-1][1].append(line.strip())
    return [(name, " ".join(said)) for name, said in found]


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("``", "`").replace("|", "\\|")


def entry(name: str) -> str:
    """The Markdown of one public name."""
    thing = getattr(dualgap, name)
    text = sections(inspect.getdoc(thing) or "")
    lines = [f"### {name}", "", text[""].replace("``", "`")]
    for title in ("Parameters", "Attributes", "Returns", "Raises"):
        rows = entries(text.get(title, ""))
        if rows:
            lines += ["", f"| {title.lower()} | |", "|---|---|"]
            lines += [f"| `{left}` | {cell(right)} |".replace("``", "`") for left, right in rows]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = tuple(
        name for name in dualgap.__all__
        if name not in grouped and (inspect.isclass(getattr(dualgap, name)) or callable(getattr(dualgap, name)))
    )  # fmt: skip
    out = [
        "# API reference\n",
        "Made of the docstrings by `python docs/api_reference.py`; `help(dualgap.SVC)` says the same.\n",
    ]
    for title, names in {**GROUPS, REST: rest}.items():
        out.append(f"## {title}\n")
        out += [entry(name) for name in names]
    return "\n".join(out)


if __name__ == "__main__":
    OUT.write_text(page(), encoding="utf-8")

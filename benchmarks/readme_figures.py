"""Rewrite the measured figures of README.md from docs/results/bench.json, so that none is typed by hand.

    python benchmarks/readme_figures.py            # rewrite
    python benchmarks/readme_figures.py --check    # say whether it would change anything

The part between the two markers is replaced; everything else stays as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dualgap.bench.summary import markdown, read_summary

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
ROOT = Path(__file__).resolve().parent.parent


def rewritten(text: str, figures: str) -> str:
    """The text with these figures between its markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the document needs one line {BEGIN} and, after it, one line {END}.")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{figures.strip()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Rewrite the measured figures of README.md.")
    parser.add_argument("--document", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results" / "bench.json")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where something would change")
    arguments = parser.parse_args()
    try:
        old = arguments.document.read_text(encoding="utf-8")
        new = rewritten(old, markdown(read_summary(arguments.results), problems=False))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.check:
        return int(new != old)
    if new != old:
        arguments.document.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One self-contained HTML page about a run: how good it is, how it got there, what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualgap.atomic import atomic_write
from dualgap.report.certificates import certificates
from dualgap.report.fit import fit
from dualgap.report.headline import headline, opening, worst_first
from dualgap.report.markup import escape, pairs, section
from dualgap.report.progress import last_states, progress
from dualgap.report.style import CHART_CSS, PAGE_CSS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from dualgap.report.data import ReportData


def document(title: str, description: str, sections: Iterable[str]) -> str:
    """A complete HTML document: no scripts, and nothing is fetched from anywhere."""
    name = escape(title)
    # The policy makes the browser itself hold the page to its promise of fetching nothing.
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f'<meta name="description" content="{escape(description)}">\n'
        f"<title>{name}</title>\n<style>\n{PAGE_CSS}{CHART_CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{name}</h1>\n{''.join(sections)}<footer>Written by dualgap.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def render_page(summary: ReportData) -> str:
    """Write the page as text.

    Parameters
    ----------
    summary : ReportData
        What to show.

    Returns
    -------
    str
        A complete HTML document: no scripts, and nothing is fetched from anywhere.
    """
    sections = [
        headline(summary.certificate_rows, summary.status_sentences),
        certificates(summary.certificate_rows),
        progress(summary),
        fit(summary),
        last_states(summary),
        section("Facts", pairs("Facts", summary.facts.items()) if summary.facts else ""),
        section("Settings", pairs("Settings", summary.settings.items()) if summary.settings else ""),
    ]
    return document(summary.title, opening(worst_first(summary.certificate_rows)), sections)


def write_page(summary: ReportData, path: str | PathLike[str]) -> None:
    """Write the page to a file that appears whole or not at all.

    Parameters
    ----------
    summary : ReportData
        What to show.
    path : str or path-like
        The file; replaced when it exists.
    """
    # Rendered first: data that cannot be shown should not cost the old page.
    write_text(render_page(summary), path)


def write_text(page: str, path: str | PathLike[str]) -> None:
    """Write a finished page to a file that appears whole or not at all."""
    content = page.encode("utf-8")
    with atomic_write(path) as file:
        file.write(content)

"""Every example runs: Python blocks of the pages, docstrings of the doors, scripts under examples/."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import dualgap

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *ROOT.glob("CONTRIBUTING.md")]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DOCUMENTED = ("dualgap.run", "dualgap.estimators.classification")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks(page: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the number of its first line."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)) + 1, found.group(1)) for found in _BLOCK.finditer(text)]


def run_session(text: str, namespace: dict[str, Any], page: Path, line: int) -> doctest.TestResults:
    """Run a block of ``>>>`` lines in `namespace` and compare what it prints."""
    session = doctest.DocTestParser().get_doctest(text, namespace, page.name, str(page), line - 1)
    session.globs = namespace  # the parser copies it; later blocks build on what this one defines
    return doctest.DocTestRunner(optionflags=FLAGS).run(session, clear_globs=False)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_docs_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, text in blocks(page):
        if text.lstrip().startswith(">>>"):
            assert run_session(text, namespace, page, line).failed == 0, f"{page.name}, line {line}"
        else:
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), namespace)


def test_docs_pages_for_users_have_examples() -> None:
    with_examples = {page.name for page in PAGES if blocks(page)}
    assert {"README.md", "guide.md", "researchers.md", "certificate.md"} <= with_examples


@pytest.mark.parametrize("page", ["README.md", "docs/solvers.md", "CHANGELOG.md"])
def test_docs_name_every_solver(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in dualgap.SOLVERS if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docs_examples_in_docstrings_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_docs_example_scripts_run(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_docs_api_reference_is_that_of_the_docstrings() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "api_reference.py"))
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == made["page"](), "python docs/api_reference.py"
    assert {name for names in made["GROUPS"].values() for name in names} <= set(dualgap.__all__)

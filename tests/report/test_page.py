"""The page says what the data say, survives any data, and needs nothing from outside."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dualgap.report import Axis, ReportData, Series, line_chart, render_page, write_page
from dualgap.report.chart import MAX_POINTS
from dualgap.report.frame import LEFT, TOP
from dualgap.report.markup import MAX_ROWS, escape
from dualgap.report.progress import MAX_DRAWN
from dualgap.result import Certificate, Event, History, Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAN, INF = math.nan, math.inf
LOG = Axis("value", log=True)
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Outline(HTMLParser):
    """Checks that every element is closed in order and collects what the tests ask about."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        # What a drawing says of itself is looked at by tests of its own.
        if "style" in self.open or self.open[-2:] == ["svg", "title"]:
            return
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def lines(self) -> list[list[tuple[float, float]]]:
        """The points of every polyline."""
        found = []
        for attrs in self.all("polyline"):
            pairs = [pair.split(",") for pair in str(attrs["points"]).split()]
            found.append([(float(x), float(y)) for x, y in pairs])
        return found


def parse(markup: str) -> Outline:
    outline = Outline()
    outline.feed(markup)
    outline.close()
    assert outline.open == []
    for attrs in outline.all("circle") + outline.all("line") + outline.all("text"):
        for key in ("cx", "cy", "x", "y", "x1", "y1"):
            assert key not in attrs or math.isfinite(float(str(attrs[key])))
    assert all(math.isfinite(value) for line in outline.lines() for point in line for value in point)
    return outline


def certificate(gap: float = 3.1e-6, *, kkt: float = 1e-4, infeasibility: float = 0.0) -> Certificate:
    return Certificate(10.0, 10.0 * (1 - gap), 10.0 * gap, gap, kkt, infeasibility)


def no_gap(kkt: float = 8.2e-4, note: str = "the kernel is indefinite") -> Certificate:
    return Certificate(NAN, NAN, NAN, NAN, kkt, 0.0, note)


def event(i: int, gap: float = 0.1, violation: float = 0.2, *, lookups: int = 10) -> Event:
    return Event(i, i / 10, 1.0, 0.9, gap, violation, 5 + i, 100 * i, 3 * lookups, lookups, lookups, lookups)


def history(length: int) -> History:
    return History([event(i, 10.0**-i, 2 * 10.0**-i) for i in range(length)])


def headline(page: str) -> str:
    found = re.search(r'<p class="verdict">(.*?)</p>', page)
    assert found is not None
    return parse(found[1]).text


def chart_of(y: Sequence[float], axis: Axis = LOG, x: Sequence[float] | None = None) -> Outline:
    x = list(range(len(y))) if x is None else x
    return parse(line_chart([Series("line", x, y)], title="t", x=Axis("x"), y=axis))


def labels(outline: Outline) -> list[str]:
    return [word for word in outline.words if word.strip()]


# ---- the page


def test_full_page_is_balanced_and_self_contained() -> None:
    data = ReportData(
        "Title",
        [("a vs b", certificate())],
        [("a vs b", history(6))],
        [Status.CONVERGED.message],
        {"kernel": "rbf"},
        (["a", "b"], np.array([[1234, 1], [0, 7]])),
        {"accuracy": 0.987654321},
    )
    page = render_page(data)
    outline = parse(page)
    names = {tag for tag, _ in outline.tags}
    assert not names & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://|url\(|@import", page)
    assert any(attrs.get("name") == "viewport" for attrs in outline.all("meta"))
    assert "@media print" in page
    assert "prefers-color-scheme: dark" in page
    assert Status.CONVERGED.message in outline.text
    assert ["kernel", "rbf"] in outline.rows
    assert ["accuracy", "0.98765"] in outline.rows
    assert ["a", "1,234", "1"] in outline.rows
    assert ["a vs b", "5", "0.5", "10", "500", "75.0", "50.0"] in outline.rows


def test_every_table_scrolls_in_its_own_container() -> None:
    data = ReportData(
        "T",
        [("t", certificate())],
        [("t", history(2))],
        facts={"k": "v"},
        confusion=(["a"], [[1]]),
        scores={"s": 1},
    )
    page = render_page(data)
    assert page.count("<table") == 5
    assert len(re.findall(r'<div class="scroll"[^>]*>\s*<table', page)) == 5


def test_minimal_page() -> None:
    outline = parse(render_page(ReportData("T", [])))
    assert "No certificate was recorded." in outline.text
    assert outline.all("svg") == []
    assert outline.all("table") == []


def test_all_user_text_is_escaped() -> None:
    evil = '<script>alert("1")</script>&amp;\''
    data = ReportData(
        evil,
        [(evil, certificate()), (evil, no_gap(note=evil))],
        [(evil, history(3)), (evil, history(2))],
        [evil],
        {evil: evil},
        ([evil, "b"], [[1, 2], [3, 4]]),
        {evil: 1.0},
    )
    page = render_page(data)
    outline = parse(page)
    assert "<script" not in page
    assert outline.all("script") == []
    # Title twice, certificate name and note in words and rows, status, facts twice, confusion twice, score.
    assert outline.text.count(evil) >= 10
    assert escape(evil) in page


def test_escape_drops_what_utf8_and_html_forbid() -> None:
    assert escape("a\x00b\udce9c\td") == "a\ufffdb\ufffdc\td"
    render_page(ReportData("bad \udce9 name", [])).encode("utf-8")


# ---- the headline


def test_headline_is_the_worst_gap() -> None:
    gaps = [1e-9, 3.1e-6, 2e-7]
    page = render_page(ReportData("T", [(f"task {i}", certificate(gap)) for i, gap in enumerate(gaps)]))
    assert headline(page) == (
        "The objective is within 3.1e-06 (relative) of the best possible; no solver can improve it by more."
    )
    assert "That is the worst of 3 tasks: task 1." in parse(page).text


@pytest.mark.parametrize(
    ("gap", "said"),
    [(3.1e-6, "3.1e-06"), (3.11e-6, "3.2e-06"), (9.96e-6, "1.0e-05"), (2.5, "2.5e+00"), (2e-16, "2.0e-16")],
)
def test_headline_never_promises_more_than_the_gap(gap: float, said: str) -> None:
    assert f"within {said} (relative)" in headline(render_page(ReportData("T", [("t", certificate(gap))])))


@pytest.mark.parametrize("gap", [NAN, INF])
def test_headline_without_a_finite_gap_gives_no_bound(gap: float) -> None:
    rows = [("fine", certificate(1e-9)), ("broken", certificate(gap))]
    page = render_page(ReportData("T", rows))
    assert headline(page).startswith("The certificate gives no bound")
    assert "within 1.0e-09" in parse(page).text


@pytest.mark.parametrize("gap", [0.0, 5e-324, 2.6e-25])
def test_headline_of_a_gap_below_rounding(gap: float) -> None:
    assert "best possible, up to rounding" in headline(render_page(ReportData("T", [("t", certificate(gap))])))


def test_note_replaces_the_gap() -> None:
    data = ReportData("T", [("t", no_gap())], [("t", History([event(i, NAN) for i in range(3)]))])
    page = render_page(data)
    outline = parse(page)
    assert headline(page).startswith("No duality gap exists here: the kernel is indefinite. ")
    assert "8.2e-04 (KKT violation)" in headline(page)
    assert ["t", "no gap: the kernel is indefinite", "8.20e-04", "0.0e+00"] in outline.rows
    assert "within 8.2e-04 (relative)" not in outline.text
    # Only the head of the table still names it; charts and legends do not.
    assert "relative gap" not in page
    assert "Relative gap and" not in page
    assert len(outline.lines()) == 5


def test_mixed_notes_and_gaps() -> None:
    rows = [("a", certificate(1e-3)), ("b", no_gap()), ("c", certificate(1e-5))]
    page = render_page(ReportData("T", rows))
    assert headline(page).startswith("No duality gap exists here")
    assert "A gap exists for 2 of the tasks; the worst of these is a. The objective is within 1.0e-03" in (
        parse(page).text
    )


def test_infeasibility_beyond_rounding_is_said() -> None:
    good = render_page(ReportData("T", [("t", certificate(infeasibility=1e-14))]))
    bad = render_page(ReportData("T", [("t", certificate(infeasibility=1e-3))]))
    assert "Caution" not in good
    assert "constraints are missed by 1.0e-03" in parse(bad).text


def test_equal_status_sentences_are_counted() -> None:
    text = parse(render_page(ReportData("T", [], (), ["done", "slow", "done"]))).text
    assert "done (2 times)" in text
    assert text.count("done") == 1
    assert "slow" in text


# ---- the tables


def test_certificates_worst_first_and_capped() -> None:
    rows = [(f"task {i}", certificate(10.0 ** -(1 + i % 45 / 5))) for i in range(45)]
    outline = parse(render_page(ReportData("T", rows[::-1])))
    shown = [row[0] for row in outline.rows if row[0].startswith("task")]
    assert shown == [f"task {i}" for i in range(MAX_ROWS)]
    assert "15 more tasks have certificates at least as good" in outline.text


def test_confusion_cells_are_shaded_by_their_share_of_the_row() -> None:
    page = render_page(ReportData("T", [], confusion=(["a", "b"], [[3, 1], [0, 0]])))
    assert re.findall(r"--share:([\d.]+)", page) == ["0.750", "0.250", "0.000", "0.000"]


def test_confusion_of_many_classes_lists_the_mistakes() -> None:
    counts = np.diag(np.full(60, 9))
    counts[7, 8] = 40
    counts[3, 2] = 5
    outline = parse(render_page(ReportData("T", [], confusion=([f"c{i}" for i in range(60)], counts))))
    assert outline.rows == [["True", "Predicted", "Count"], ["c7", "c8", "40"], ["c3", "c2", "5"]]


def test_confusion_must_be_square() -> None:
    with pytest.raises(ValueError, match="2 x 2"):
        ReportData("T", [], confusion=(["a", "b"], [[1, 2]]))
    with pytest.raises(ValueError, match="2 x 2"):
        ReportData("T", [], confusion=(["a", "b"], [[1, 2], [3]]))


def test_missing_numbers_in_tables() -> None:
    outline = parse(render_page(ReportData("T", [], scores={"nan": NAN, "inf": INF, "minus": -INF})))
    assert outline.rows == [["nan", "\u2013"], ["inf", "\u221e"], ["minus", "-\u221e"]]


# ---- the charts of the page


def test_page_draws_every_event_of_every_quantity() -> None:
    outline = parse(render_page(ReportData("T", [("t", certificate())], [("t", history(6))])))
    # Gap and violation twice, support vectors, two caches.
    assert [len(line) for line in outline.lines()] == [6] * 7
    assert outline.text.count("relative gap") >= 2


def test_unused_cache_is_said_and_not_drawn() -> None:
    run = History([event(i, lookups=0) for i in range(4)])
    outline = parse(render_page(ReportData("T", [], [("t", run)])))
    # What the kernel cost takes the place of the cache.
    assert len(outline.lines()) == 6
    assert "Kernel evaluations over time (no cache was asked)" in outline.text
    assert "Cache hit rates" not in outline.text


def test_one_event_and_empty_histories() -> None:
    outline = parse(render_page(ReportData("T", [], [("t", history(1)), ("none", History())])))
    assert outline.lines() == []
    assert len(outline.all("circle")) == 7


def test_many_runs_draw_the_worst_strongly() -> None:
    names = [f"task {i}" for i in range(12)]
    rows = [(name, certificate(10.0 ** (i - 12))) for i, name in enumerate(names)]
    outline = parse(render_page(ReportData("T", rows, [(name, history(3)) for name in names])))
    lines = [str(attrs["class"]) for attrs in outline.all("polyline")]
    # Each but the worst has its gap and violation once more, over time and iterations, folded away.
    folded = 4 * (MAX_DRAWN - 1)
    assert len(outline.all("details")) == MAX_DRAWN - 1
    assert len(lines) == 7 * MAX_DRAWN + folded
    assert sum("muted" not in kind for kind in lines) == 7 + folded
    assert "muted" not in lines[2 * MAX_DRAWN - 1]
    assert "Strong lines: task 11 (worst certificate). Pale lines: 7 more. Not drawn: 4." in outline.text


# ---- the chart itself


def test_log_ticks_are_powers_of_ten() -> None:
    assert labels(chart_of([1.0, 1e-3]))[2:6] == ["10⁻³", "10⁻²", "10⁻¹", "10⁰"]


def test_log_axis_places_decades_evenly() -> None:
    (line,) = chart_of([1e2, 1e1, 1e0]).lines()
    assert line[0] == (LEFT, TOP)
    assert line[1][1] - line[0][1] == pytest.approx(line[2][1] - line[1][1], abs=0.11)


def test_extreme_range_keeps_few_ticks() -> None:
    ticks = [word for word in labels(chart_of([1e300, 5e-324])) if word.startswith("10")]
    assert 3 <= len(ticks) <= 7


def test_nan_and_infinity_break_the_line() -> None:
    outline = chart_of([1.0, 0.5, NAN, 0.1, INF, 0.05, 0.04, 0.03, -INF])
    assert [len(line) for line in outline.lines()] == [2, 3]
    assert len(outline.all("circle")) == 1


def test_zero_and_negative_sit_on_the_shelf() -> None:
    outline = chart_of([1.0, 1e-2, 0.0, -3.0])
    (line,) = outline.lines()
    assert line[2][1] == line[3][1]
    assert line[2][1] > line[1][1] + 10
    assert "≤ 0" in labels(outline)


def test_only_zeros_have_no_decades() -> None:
    outline = chart_of([0.0, 0.0])
    assert [len(line) for line in outline.lines()] == [2]
    assert not [word for word in labels(outline) if word.startswith("10")]


def test_one_point_is_a_dot() -> None:
    outline = chart_of([1e-3])
    assert outline.lines() == []
    assert len(outline.all("circle")) == 1


@pytest.mark.parametrize("y", [[], [NAN], [INF, NAN]])
@pytest.mark.parametrize("axis", [LOG, Axis("count", whole=True)])
def test_nothing_to_draw_is_said(y: list[float], axis: Axis) -> None:
    outline = chart_of(y, axis)
    assert outline.all("svg") == []
    assert "Nothing was recorded" in outline.text


@pytest.mark.parametrize("y", [[0.0], [1e-320], [-5.0, 5.0], [1.7e308, 1.0], [1e299, -1e299]])
def test_linear_axis_survives(y: list[float]) -> None:
    assert chart_of(y, Axis("v")).all("svg")


@pytest.mark.parametrize(
    ("top", "whole", "ticks"),
    [
        (2, True, ["0", "1", "2"]),
        (1, True, ["0", "1"]),
        (1, False, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (900, True, ["0", "200", "400", "600", "800", "1000"]),
        (60_000, True, ["0", "10k", "20k", "30k", "40k", "50k", "60k"]),
    ],
)
def test_linear_ticks_are_round(top: float, whole: bool, ticks: list[str]) -> None:
    words = labels(chart_of([0, top], Axis("y", whole=whole), [0, 1]))
    # Title and legend come before the ticks of y.
    assert words[2 : 2 + len(ticks)] == ticks


def test_long_lines_are_thinned_but_keep_their_spikes() -> None:
    y = [1.0] * 10_000
    y[4321] = 1e6
    (line,) = chart_of(y).lines()
    assert len(line) <= MAX_POINTS
    assert min(point[1] for point in line) == TOP
    assert line == sorted(line, key=lambda point: point[0])


def test_lines_up_to_the_limit_are_not_thinned() -> None:
    (line,) = chart_of([1.0 + i for i in range(MAX_POINTS)]).lines()
    assert len(line) == MAX_POINTS


def test_legend_names_each_quantity_once() -> None:
    series = [Series("gap", [0, 1], [1, 2]), Series("gap", [0, 1], [2, 3], muted=True)]
    series += [Series("kkt", [0, 1], [3, 4], slot=1), Series("nothing", [0, 1], [NAN, NAN])]
    words = labels(parse(line_chart(series, title="t", x=Axis("x"), y=LOG)))
    assert words[:3] == ["t", "gap", "kkt"]
    assert "nothing" not in words


def test_series_must_be_sound() -> None:
    with pytest.raises(ValueError, match="2 x values and 1 y"):
        Series("s", [1, 2], [1])
    with pytest.raises(ValueError, match="slot"):
        Series("s", [], [], slot=2)


# ---- the file


def test_write_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    data = ReportData("Größe ≤ 1", [("t", certificate())])
    write_page(data, path)
    assert path.read_bytes() == render_page(data).encode("utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_failure_keeps_the_old_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(AttributeError):
        write_page(ReportData("T", [("t", None)]), str(path))  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1

"""Verdicts, records, drawings, files and the clock."""

import json
import math
import xml.etree.ElementTree as ET

import pytest

from dualgap.reproduce import store
from dualgap.reproduce.claims import Claim, all_hold, judged
from dualgap.reproduce.clock import Clock
from dualgap.reproduce.drawing import draw, draw_digits
from dualgap.reproduce.page import render, shown
from dualgap.reproduce.record import Digits, Figure, Line, Record, Table


def record(quick=True):
    return Record(
        name="rosen",
        title="A <title>",
        paper="A & B",
        quick=quick,
        data="some",
        partitions="2 seeded partitions",
        parameters={"C": 1.0},
        differences=["none"],
        notes=["time limit (1 s) reached: half was run"],
        tables=[Table("T", [{"data": "a", "iters": 3, "gap": math.nan, "s": 0.25}])],
        figures=[Figure("f", "F", "x", "y", [Line("one", [1.0, 2.0, 3.0], [1.0, math.nan, 0.01])], log_x=True)],
        digits=[Digits("d", "D", [[[1.0, -1.0], [0.0, 0.5]]], ["7"])],
        claims=[judged("It holds.", "abstract", True, "3 of 3")],
    )


@pytest.mark.parametrize(
    ("holds", "verdict"), [(True, "reproduced"), (False, "not reproduced"), (None, "cannot be tested")]
)
def test_verdicts(holds, verdict):
    assert judged("a", "b", holds, "c").verdict == verdict


def test_a_claim_needs_a_known_verdict_and_evidence():
    with pytest.raises(ValueError, match="verdict must be"):
        Claim("a", "b", "perhaps", "c")
    with pytest.raises(ValueError, match="needs evidence"):
        judged("a", "b", True, "")


def test_all_hold():
    assert all_hold([1.0, 2.0], 1.0) is True
    assert all_hold([0.5, 2.0], 1.0) is False
    assert all_hold([], 1.0) is None
    assert all_hold([math.nan, 2.0], 1.0) is None


def test_records_survive_json():
    text = store.dumps([record()])
    again = Record.from_dict(json.loads(text)[0])
    assert again.claims == record().claims
    assert again.tables[0].rows[0]["gap"] is None
    assert math.isnan(again.figures[0].lines[0].y[1])
    assert again.digits == record().digits
    assert store.dumps([again]) == text
    with pytest.raises(ValueError, match="no record"):
        Record.from_dict({"layout": 0})


def test_drawings_are_svg_and_leave_out_what_has_no_place():
    picture = ET.fromstring(draw(record().figures[0]))
    lines = picture.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines[0].attrib["points"].split()) == 2
    pixels = ET.fromstring(draw_digits(record().digits[0])).findall(".//{http://www.w3.org/2000/svg}rect")
    # White is the paper's; [0, 0.5] below.
    assert [(p.attrib["x"], p.attrib["fill"]) for p in pixels[1:]] == [("0", "#000"), ("0", "#888"), ("4", "#444")]
    alike = draw_digits(Digits("d", "D", [[[1.0, 1.0, -1.0, 1.0]]], ["7"]))
    strips = ET.fromstring(alike).findall(".//{http://www.w3.org/2000/svg}rect")[1:]
    assert [(p.attrib["x"], p.attrib["width"]) for p in strips] == [("0", "8"), ("12", "4")]
    empty = Figure("e", "E", "x", "y", [Line("none", [], []), Line("bad", [0.0], [-1.0])], log_x=True)
    assert ET.fromstring(draw(empty)) is not None


def test_the_page_is_escaped_and_complete():
    page = render([record()])
    assert "A &lt;title&gt;" in page
    assert "A &amp; B" in page
    assert "<script" not in page
    assert "1 claims: 1 reproduced, 0 not reproduced, 0 cannot be tested." in page
    assert "half was run" in page
    assert page.count("<svg") == 2


def test_words_stand_left_and_figures_right():
    page = render([record()])
    assert '<th>data</th><th class="n">iters</th>' in page
    assert '<td>a</td><td class="n">3</td>' in page


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (math.nan, "–"), (True, "yes"), (1234, "1,234"), (0.5, "0.5")]
)
def test_cells(value, text):
    assert shown(value) == text


def test_files_are_written_and_reused(tmp_path):
    files = store.save(record(), tmp_path)
    assert [f.name for f in files] == ["rosen.json", "rosen-f.svg", "rosen-d.svg"]
    assert store.finished("rosen", tmp_path, quick=True).title == "A <title>"
    assert store.finished("rosen", tmp_path, quick=False) is None
    assert store.finished("mpd", tmp_path, quick=True) is None
    other = record()
    other.name = "mpd"
    assert [one.name for one in store.beside([other], tmp_path, ("rosen", "dcd", "mpd"))] == ["rosen", "mpd"]
    (tmp_path / "rosen.json").write_text("[]")
    assert [one.name for one in store.beside([other], tmp_path, ("rosen", "dcd", "mpd"))] == ["mpd"]
    with pytest.raises(ValueError, match=r"rosen\.json"):
        store.finished("rosen", tmp_path, quick=True)


def test_contents_of_a_folder(tmp_path):
    one = record()
    one.date, one.machine, one.versions = "2030-01-02", {"processor": "P*", "cores": 2}, {"dualgap": "9"}
    store.save(one, tmp_path)
    text = store.save_index(tmp_path, ("rosen", "mpd"), "## Beside others\n").read_text()
    assert text.index("## Beside others") < text.index("### A &lt;title&gt;")
    assert "Short run (`--quick`) on 2030-01-02, 0 s; P\\*, 2 cores; dualgap 9." in text
    assert "![F](rosen-f.svg)" in text
    assert "![D](rosen-d.svg)" in text
    assert "1 claims: 1 reproduced, 0 not reproduced, 0 cannot be tested." in text
    assert "Note: time limit (1 s) reached: half was run." in text
    (tmp_path / "rosen.json").write_text("[]")
    assert "###" not in store.save_index(tmp_path, ("rosen",)).read_text()


def test_figures_are_the_same_every_time():
    assert draw(record().figures[0]) == draw(record().figures[0])


def test_a_part_has_a_limit_of_its_own(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("dualgap.reproduce.clock.time.perf_counter", lambda: now[0])
    clock = Clock(10.0)
    with clock.part("first", 4.0) as mine:
        with mine.apart():
            now[0] = 50.0
        now[0] = 53.0
        assert not mine.over("nothing")
        assert mine.left(9.0) == 1.0
        now[0] = 55.0
        assert mine.over("the rest of it")
    assert clock.elapsed() == 5.0
    with clock.part("second", 40.0) as mine:
        assert mine.limit == 5.0
        now[0] = 56.0
    assert clock.spent == {"first": 5.0, "second": 1.0}
    assert clock.notes == ["time limit (4 s) reached: the rest of it"]


def test_the_clock_counts_no_compiling(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("dualgap.reproduce.clock.time.perf_counter", lambda: now[0])
    said = []
    clock = Clock(10.0, said.append)
    with clock.apart("compiling"):
        now[0] = 100.0
    assert clock.elapsed() == 0.0
    assert clock.left(3.0) == 3.0
    assert not clock.over("nothing")
    now[0] = 111.0
    assert clock.over("half")
    assert clock.over("half")
    assert clock.left() == 0.1
    assert clock.notes == ["time limit (10 s) reached: half"]
    assert said == ["compiling"]

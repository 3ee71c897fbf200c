"""`python -m reports history`: each cell over the runs, and the commits at which it changed."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from reports.figures import drawing_rules
from reports.history import trend
from reports.history.commit_links import range_url
from reports.history.trends import machine_of
from reports.style import quantity
from results.store import list_runs
from results.timed_runs import timed_runs
from tests.fake_cells import cell
from tests.fake_launches import NAMES, noisy, write_side
from tests.fake_run import write_run
from tests.test_page import Reader

NIGHTS, STEP = 14, 9


@pytest.fixture
def nights(tmp_path):
    """`nights(times, …)` writes a run a night, (nights, cells) seconds, and gives the store."""
    store = tmp_path / "runs"

    def write(times_s, names=NAMES, **keywords):
        for night, row in enumerate(times_s):
            write_side(store, row[None, :], names, day=night + 1, commit=f"{night:07x}", **keywords)
        return store

    return write


def stepped(ratio=1.2, nights=NIGHTS, since=STEP):
    """Quiet nights of three cells, the second slower since a night."""
    times = noisy(nights, noise=0.004, base_s=0.02)
    times[since:, 1] *= ratio
    return times


@pytest.fixture
def called(tmp_path, capsys):
    """`called(store, …)` → exit code, stdout, stderr and the folder of what was written."""

    def call(store, *arguments):
        given = ["history", "--store", str(store), "--out", str(tmp_path / "out"), *arguments]
        code = main(given)
        out, err = capsys.readouterr()
        return code, out, err, tmp_path / "out" / "cpu-0123456789ab"

    return call


def test_the_page_names_the_change_and_its_commits(nights, called):
    store = nights(stepped())
    for file in store.glob("*/*/run.json"):
        header = json.loads(file.read_text())
        header["environment"]["repository"] = "github.com/owner/name"
        file.write_text(json.dumps(header))
    code, out, _, folder = called(store)
    html = (folder / "history.html").read_text(encoding="utf-8")
    assert code == 0
    assert "1 cell slower (+20" in out and "commits 0000008..0000009" in out
    event = re.search(r'<li class="slower">.*?</ul>', html, re.DOTALL)
    link = "https://github.com/owner/name/compare/0000008...0000009"
    assert event and "since 2026-12-10, commits 0000008..0000009" in re.sub(
        "</?a.*?>", "", event[0]
    )
    assert re.findall('<a href="(http[^"]+)"', event[0]) == [link]
    assert "look into it" in event[0] and "chunked B=1,T=63" in event[0]
    # And in the panel itself.
    assert re.search(r"▲ \+\d+\.\d % 0000008\.\.0000009<", html)


def test_it_opens_offline_and_stands_without_scripts(nights, called):
    folder = called(nights(stepped()))[3]
    html = (folder / "history.html").read_text(encoding="utf-8")
    assert html.count("<script>") == 1 and "default-src 'none'" in html
    still = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert Reader(still).open == [] and len(re.findall(r'<tr id="r\d+"', still)) == 3
    outside = re.findall(r'(?:src|href)="(?!#)([^"]+)"', html)
    assert set(outside) == {"trend.png", "trend.svg", "history.csv"}
    assert all((folder / name).is_file() for name in outside)
    assert (folder / "trend.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    ElementTree.parse(folder / "trend.svg")


@pytest.mark.parametrize(
    ("before", "since", "url"),
    [
        ("github.com/a/b", "github.com/a/b", "https://github.com/a/b/compare/1a...2b"),
        ("gitlab.com/a/b/c", "gitlab.com/a/b/c", "https://gitlab.com/a/b/c/-/compare/1a...2b"),
        ("github.com/a/b", "github.com/fork/b", ""),
        ("github.com/a/b", None, ""),
        (None, None, ""),
        ("git.example.org/a/b", "git.example.org/a/b", ""),
    ],
)
def test_commits_are_linked_to_where_both_runs_say_the_same_known_host(before, since, url):
    recorded = {"1a": before, "2b": since}
    known = {commit: place for commit, place in recorded.items() if place}
    assert range_url(known, "1a", "2b") == url
    assert range_url(known, None, "2b") == range_url(known, "1a", None) == ""


def machine(store, wanted=lambda name: True):
    return machine_of(timed_runs(store, list_runs(store), wanted), "cpu-0123456789ab")


def test_levels_are_medians_between_changes_and_the_change_lies_between_two_runs(nights):
    times = stepped()
    times[4, 1] *= 3
    found = machine(nights(times)).trends[0]
    (change,) = found.changes
    assert found.name.startswith("chunked")
    assert (change.column_before, change.column, change.commits) == (8, 9, "0000008..0000009")
    levels = [point.level_s for point in found.points]
    for part in (slice(0, STEP), slice(STEP, NIGHTS)):
        assert levels[part] == pytest.approx([np.median(times[part, 1])] * len(levels[part]), 0.01)
    assert found.since_first == pytest.approx(1.2, rel=0.01)


def test_a_panel_marks_the_change_and_a_run_beyond_its_axis(nights):
    times = stepped()
    times[4, 0] *= 9
    times[6, 0] /= 9
    shown = machine(nights(times))
    with drawing_rules():
        figure = trend.draw(shown)
        assert figure is not None
        assert len(figure.axes) == 3
        first = figure.axes[0]
        verticals = [line for line in first.lines if np.array_equal(line.get_ydata(), [0, 1])]
        assert [np.asarray(line.get_xdata())[0] for line in verticals] == [8.5]
        naive = next(
            axes for axes in figure.axes if any("naive" in t.get_text() for t in axes.texts)
        )
        for marker, night, edge in (("^", 4, 1), ("v", 6, 0)):
            (beyond,) = [line for line in naive.lines if line.get_marker() == marker]
            assert np.array_equal(beyond.get_xdata(), [night]), "the triangle points to it"
            assert beyond.get_ydata() == [naive.get_ylim()[edge]]
        assert [axes.get_ylim() for axes in figure.axes] == [first.get_ylim()] * 3


def test_a_panel_for_each_of_many_cells_and_the_rest_in_the_table(nights, called):
    names = [f"naive T={n},H=1,d_h=8" for n in range(1, 46)]
    folder = called(nights(noisy(6, 45, base_s=0.02), names))[3]
    html = (folder / "history.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<tr id="r\d+"', html)) == 45 and "5 more cells" in html
    svg = (folder / "trend.svg").read_text(encoding="utf-8")
    assert len(re.findall(r">T=\d+<", svg)) == trend.MOST_PANELS


def warmer(header):
    header["settings"]["warmup_s"] = 0.5


def test_times_by_another_method_are_not_set_against_each_other(nights, called):
    times = stepped(1.4, since=7)
    store = nights(times[:7])
    for night in range(7, NIGHTS):
        write_side(store, times[night : night + 1], day=night + 1, commit="c", change=warmer)
    code, out, _, folder = called(store, "--machine", "cpu-0123456789ab")
    html = (folder / "history.html").read_text(encoding="utf-8")
    assert code == 0 and "no change of level" in out
    assert "measured in 2 ways" in html
    assert {point.part for t in machine(store).trends for point in t.points} == {1, 2}


def test_a_method_that_comes_back_leaves_its_runs_in_their_order(tmp_path):
    """The dashed line stood on a dot, and "now" was the last run of the other method."""
    for night in range(7):
        change, times = warmer if night in (2, 3, 4) else None, np.full((1, len(NAMES)), 0.02)
        write_side(tmp_path, times, day=night + 1, commit="c", change=change)
    shown = machine(tmp_path)
    assert [p.column for p in shown.trends[0].points] == [*range(7)]
    with drawing_rules():
        figure = trend.draw(shown)
    assert figure is not None
    lines = [n for n in figure.axes[0].lines if np.array_equal(n.get_ydata(), [0, 1])]
    assert [np.asarray(line.get_xdata())[0] for line in lines] == [1.5, 4.5]


def test_cells_without_a_change_stand_by_size_and_not_by_letters(nights):
    names = [f"naive T={T},H=1,d_h=8" for T in (1024, 128, 512, 64)]
    found = machine(nights(noisy(2, 4), names)).trends
    assert [trend.cell.problem.T_q for trend in found] == [64, 128, 512, 1024]


def test_every_dot_has_its_night_and_every_panel_its_row(tmp_path, called):
    """Also nights beyond the axis, and a name of several words."""
    times = stepped()
    times[4, 0] *= 9
    times[6, 0] /= 9
    names = ('a "b" <i>&-2', "naive", "naive")
    problems = [Problem.parse(f"T={T},H=1,d_h=8") for T in (64, 128, 256)]
    for night, row in enumerate(times):
        records = [cell(n, p, t) for n, p, t in zip(names, problems, row, strict=True)]
        created = f"202612{night + 1:02}T000000Z"
        write_run(tmp_path / "runs", records=records, created=created, commit=f"{night:07x}")
    html = (called(tmp_path / "runs")[3] / "history.html").read_text(encoding="utf-8")
    dots = re.findall(r'data-row="(\d)"[^>]*><title>2026-12-(\d\d), (\w{7}): ([^<]+)</title>', html)
    assert len(dots) == 3 * NIGHTS == html.count("<title>") - 1
    rows = [re.search(rf'<tr id="r{n}".*', html) for n in (1, 2, 3)]
    assert re.findall(r'data-panel="(\d)"', html) == ["1", "2", "3"]
    (away,) = (
        n for n, row in enumerate(rows, 1) if row and "&lt;i&gt;&amp;-2<td>B=1,T=64" in row[0]
    )
    told = {day: time for row, day, _, time in dots if row == str(away)}
    for night in (4, 6):
        assert told[f"{night + 1:02}"] == quantity(0.995 * times[night, 0], "s")


@pytest.mark.slow
def test_a_page_of_very_many_runs_has_dots_without_words(nights, called, monkeypatch):
    monkeypatch.setattr("reports.history.page._MOST_TOLD", 41)
    html = (called(nights(stepped()))[3] / "history.html").read_text(encoding="utf-8")
    assert html.count("<title>") == 1 and len(re.findall(r'<use data-row="\d"', html)) == 3 * NIGHTS


def test_of_very_many_runs_the_extremes_of_each_stretch_have_a_dot(nights, called, monkeypatch):
    monkeypatch.setattr(trend, "MOST_DOTS", 6)
    folder = called(nights(stepped()))[3]
    html = (folder / "history.html").read_text(encoding="utf-8")
    assert "more than 6 runs" in html
    dots = re.findall(r'data-row="(\d)"[^>]*><title>[^<]*: ([^<]+)</title>', html)
    with (folder / "history.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    of_cells = [list(own) for _, own in itertools.groupby(rows, key=lambda row: row["cell"])]
    assert len(dots) == 6 * len(of_cells) == 18
    for number, own in enumerate(of_cells, start=1):
        times = [float(row["time_s"]) for row in own]
        ends = [f(times[n : n + 5]) for n in (0, 5, 10) for f in (min, max)]
        told = sorted(words for row, words in dots if row == str(number))
        assert told == sorted(quantity(time_s, "s") for time_s in ends)


def test_too_few_runs_say_so(nights, called):
    code, out, _, folder = called(nights(stepped(nights=4, since=2)))
    assert code == 0 and "3 cells, 4 runs" in out
    assert "needs 6 runs" in (folder / "history.html").read_text(encoding="utf-8")


def test_the_csv_has_every_run_in_seconds(nights, called):
    times = stepped()
    folder = called(nights(times), "--cells", "chunked *")[3]
    rows = list(csv.DictReader(io.StringIO((folder / "history.csv").read_text("utf-8"))))
    assert [float(row["time_s"]) for row in rows] == pytest.approx(list(times[:, 1]), rel=1e-9)
    assert rows[STEP]["commit"] == "0000009" and {row["method"] for row in rows} == {"1"}


def test_json_is_complete_and_codes_tell(nights, called, tmp_path):
    code, out, _, folder = called(nights(stepped()), "--json")
    told = json.loads(out)
    assert (code, told["cells"], told["runs"]) == (0, 3, NIGHTS)
    assert told["page"] == str(folder / "history.html") and len(told["files"]) == 4
    assert "commits 0000008..0000009" in told["events"][0]
    assert called(tmp_path / "none")[0] == 5
    code, _, err, _ = called(tmp_path / "runs", "--machine", "other")
    assert code == 2 and "cpu-0123456789ab" in err
    assert called(tmp_path / "runs", "--cells", "nosuch *")[0] == 5


def test_what_a_brought_kernel_is_called_cannot_become_markup(nights, called):
    names = ("<b>x</b>&y T=64,H=1,d_h=8", *NAMES[1:])
    html = (called(nights(stepped(), names))[3] / "history.html").read_text(encoding="utf-8")
    assert "<b>x</b>" not in html and "&lt;b&gt;x&lt;/b&gt;&amp;y" in html


def test_words_of_neighbouring_panels_do_not_touch(nights):
    """A problem of many sizes was as long as two panels are wide, and stood in the next title."""
    long = "B=16,T_q=1,T_kv=131072,H=32,H_kv=8,d_h=128,bfloat16,causal,window=4096"
    names = [f"{who} {long}" for who in ("triton_flash_hopper", "xformers_cutlass")]
    names += ["naive T=63,H=4,d_h=40", "chunked T=63,H=4,d_h=40", "naive T=64,H=4,d_h=40"]
    times = noisy(NIGHTS, 5, noise=0.004, base_s=0.02)
    times[STEP:, 0] *= 1.3
    shown = machine(nights(times, names))
    with drawing_rules():
        figure = trend.draw(shown)
    assert figure is not None
    figure.canvas.draw()
    boxes = [
        (text.get_text(), text.get_window_extent()) for axes in figure.axes for text in axes.texts
    ]
    assert len(boxes) > 17
    for (words, one), (others, other) in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (words, others)
    assert "bf16 causal window=4096" in [words for words, _ in boxes]

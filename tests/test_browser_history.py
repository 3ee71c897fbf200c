"""The page of trends in a browser: what a reader filters, points at, links to, and sees in any way.

Each test opens a file; with no Chromium on the machine they are skipped, and say so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from tests.browsing import NASTY, VISIBLE, needs_browser
from tests.fake_cells import cell
from tests.fake_run import write_run
from tests.test_browser import centre, choose
from tests.test_browser_looks import violations

pytestmark = needs_browser
NIGHTS = 10
SMALL = Problem.parse("T=512,H=8,d_h=64")
CELLS = [(name, SMALL.with_(causal=c)) for name in ("naive", NASTY) for c in (False, True)]


@pytest.fixture(scope="module")
def trends(tmp_path_factory) -> Path:
    """Ten nights of four cells, the awkward name's full one slower from the sixth on."""
    tmp = tmp_path_factory.mktemp("trends")
    for night in range(NIGHTS):
        slower = (1.0, 1.0, 1.3 if night > 4 else 1.0, 1.0)
        times = (0.01 * (i + 1) * by * (1 + 0.002 * (night % 3)) for i, by in enumerate(slower))
        records = [cell(*what, time_s) for what, time_s in zip(CELLS, times, strict=True)]
        created = f"202612{night + 1:02}T000000Z"
        write_run(tmp / "runs", records=records, created=created, commit=f"{night:07x}")
    assert main(["history", "--store", str(tmp / "runs"), "--out", str(tmp / "out")]) == 0
    (page,) = (tmp / "out").glob("*/history.html")
    return page


@pytest.fixture
def page(browser, trends):
    """The page in a window of usual size; nothing may be said or fetched meanwhile."""
    browser.size(1280)
    browser.media()
    browser.console.clear()
    browser.requests.clear()
    browser.open(trends)
    yield browser
    assert browser.console == []
    assert {r.partition("#")[0] for r in browser.requests} <= {trends.as_uri(), "about:blank"}


def test_what_is_filtered_away_is_pale_in_the_figure_and_the_address_keeps_it(page):
    pale = "[...document.querySelectorAll('[data-panel].away')].map(p => p.dataset.panel)"
    assert len(page.ask(VISIBLE)) == 4 and page.ask(pale) == []
    choose(page, "last change", "slower")
    assert page.ask(f"{VISIBLE}.map(row => row.id)") == ["r1"]
    assert page.ask(pale) == ["2", "3", "4"]
    choose(page, "last change", "all")
    choose(page, "mask", "causal")
    choose(page, "implementation", NASTY)
    address, shown = page.ask("location.href"), page.ask(f"{VISIBLE}.map(row => row.id)")
    assert len(shown) == 1 and "mask=causal" in address
    page.open(address)
    assert page.ask(f"{VISIBLE}.map(row => row.id)") == shown and len(page.ask(pale)) == 3


def test_a_dot_tells_its_night_and_its_cell_and_leads_to_its_row(page):
    dot = '[data-panel="1"] [data-row]'
    page.move(*centre(page, dot))
    told = page.ask("document.querySelector('.tip').innerText")
    assert told.splitlines()[0] == "2026-12-01, 0000000: 29.8 ms"
    assert NASTY in told and "+30." in told and "0000004..0000005" in told
    # The nights of a cell are one row, and only the one pointed at is lit.
    assert page.ask("document.querySelectorAll('.lit').length") == 1
    page.click(*centre(page, dot))
    assert page.ask("document.querySelector('tr.here').id") == "r1"
    page.ask("document.querySelector('.card').focus()")
    page.press("ArrowRight")
    # As where the page moves away under a pointer at rest: the keys go on from where they are.
    page.ask("document.querySelector('.card').dispatchEvent(new Event('pointerleave'))")
    page.press("ArrowRight")
    assert page.ask("document.querySelector('.tip').innerText").startswith("2026-12-02")


DOTS = """[...document.querySelectorAll('[data-panel="1"] use[data-row]:not(.off)')]"""


def test_a_stretch_of_the_runs_is_drawn_over_the_whole_axis_and_the_address_keeps_it(page):
    places = f"{DOTS}.map(dot => Number(dot.getAttribute('x')))"
    level = "document.querySelector('[data-panel=\"1\"] path[style*=none]').getAttribute('d')"
    every, whole = page.ask(places), page.ask(level)
    assert len(every) == NIGHTS
    page.ask("document.querySelector('.zoom input').focus()")
    for _ in range(4):
        page.press("ArrowRight")
    shown = page.ask(places)
    # Six of ten runs, from the fifth on, where the ten were: first and last at the old places.
    apart = (every[-1] - every[0]) / 5
    assert shown == pytest.approx([every[0] + apart * i for i in range(6)], abs=0.2)
    assert page.ask(level) != whole
    said = page.ask("document.querySelector('.zoom output').textContent")
    assert said == "2026-12-05 to 2026-12-10, 6 of 10 runs"
    days = """[...document.querySelectorAll('[data-panel="1"] text')].map(t => t.textContent)"""
    assert {"2026-12-05", "2026-12-10"} <= set(page.ask(days))
    page.move(*centre(page, '[data-panel="1"] use[data-row]:not(.off)'))
    assert page.ask("document.querySelector('.tip').innerText").startswith("2026-12-05")
    address = page.ask("location.href")
    assert "from=5" in address
    page.open(address)
    assert page.ask(places) == shown
    page.ask("document.querySelector('.filters button').click()")
    assert (page.ask(places), page.ask(level)) == (every, whole)
    assert "from=" not in page.ask("location.href")


def test_a_change_shows_its_rows_and_sorting_is_by_how_much(page):
    page.ask("document.querySelector('.events a[data-rows]').click()")
    assert page.ask(f"{VISIBLE}.map(row => row.id)") == ["r1"]
    page.ask("document.querySelector('.filters button').click()")
    for _ in range(2):
        page.ask("document.querySelector('th[data-key=since] button').click()")
    assert page.ask(f"{VISIBLE}[0].id") == "r1"


def test_without_scripts_changes_figure_and_table_stand(browser, trends):
    browser.scripts(on=False)
    try:
        browser.open(trends)
    finally:
        browser.scripts(on=True)
    assert len(browser.ask(VISIBLE)) == 4
    assert browser.ask("document.querySelectorAll('.events > li').length") == 1
    assert browser.ask("document.querySelector('form.filters').hidden")
    assert browser.ask("getComputedStyle(document.querySelector('.zoom')).display") == "none"
    words = browser.ask("document.querySelector('.card [data-row] title').textContent")
    assert words.startswith("2026-12-")
    browser.open(trends)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_wrong_and_no_phone_scrolls_sideways(page, trends, scheme, width):
    page.size(width)
    page.media(scheme=scheme)
    page.open(trends)
    assert page.ask("document.documentElement.scrollWidth") == width
    assert violations(page) == []

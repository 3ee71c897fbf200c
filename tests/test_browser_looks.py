"""The page in a browser: without scripts, on a phone, in the dark, on paper, and read aloud."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from reports.__main__ import main
from tests.browsing import VISIBLE, needs_browser
from tests.fake_launches import NAMES, noisy, write_side

pytestmark = needs_browser


def test_without_scripts_tables_and_figures_stand(browser, report):
    browser.scripts(on=False)
    try:
        browser.open(report)
    finally:
        browser.scripts(on=True)
    assert len(browser.ask(VISIBLE)) == 33
    assert browser.ask("document.querySelectorAll('.card svg').length") >= 3
    assert browser.ask("document.querySelector('form.filters').hidden")
    assert browser.ask("document.querySelector('.card [data-row] title').textContent.length") > 20
    browser.open(report)


def test_a_phone_scrolls_no_page_sideways(page, report):
    page.size(390, 844)
    page.open(report)
    assert page.ask("document.documentElement.scrollWidth") == 390
    # Letters of figures keep four fifths of their size; the figure is scrolled in its frame.
    assert page.ask("document.querySelector('.card svg').getBoundingClientRect().width") > 700
    size = page.ask("parseFloat(getComputedStyle(document.querySelector('.findings li')).fontSize)")
    assert size >= 15


def test_dark_is_dark_and_paper_is_white(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.ask(ground) == "rgb(255, 255, 255)"
    page.media(scheme="dark")
    assert page.ask(ground) == "rgb(20, 23, 26)"
    assert "invert" in page.ask("getComputedStyle(document.querySelector('.card')).filter")
    page.media("print", scheme="dark")
    assert page.ask(ground) == "rgb(255, 255, 255)"
    assert page.ask("getComputedStyle(document.querySelector('.card')).filter") == "none"


def test_print_has_everything_but_what_is_pressed(page):
    page.media("print")
    for selector in ("nav", "form.filters", ".legend", "#more"):
        assert page.ask(f"document.querySelector('{selector}').getBoundingClientRect().height") == 0
    box, table = page.ask(
        "[document.querySelector('.scroll'), document.querySelector('#cells')]"
        ".map(one => one.getBoundingClientRect().height)"
    )
    assert box >= table - 1


def test_no_page_is_wider_than_the_paper(browser, tmp_path):
    """A4 at 96 dots an inch, less its margins; words stay whole where they can."""
    for day in range(1, 9):
        write_side(tmp_path / "runs", noisy(1, seed=day), day=day)
    store = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(["compare", "20261201", "20261202", *store]) == 0
    assert main(["history", *store]) == 0 and main(store) == 0
    pages = sorted((tmp_path / "out").rglob("*.html"))
    assert [page.name for page in pages] == ["report.html", "comparison.html", "history.html"]
    browser.media("print")
    browser.size(718)
    try:
        for page in pages:
            browser.open(page)
            assert browser.ask("document.documentElement.scrollWidth") == 718, page.name
    finally:
        browser.media()


def violations(page) -> list[str]:
    """What axe-core finds wrong, by rule and place."""
    spec = importlib.util.find_spec("axe_core_python")
    assert spec and spec.submodule_search_locations
    script = Path(spec.submodule_search_locations[0]) / "axe.min.js"
    page.ask(f"{script.read_text(encoding='utf-8')}; 0")
    found = page.ask("axe.run(document).then(result => JSON.stringify(result.violations))")
    return [
        f"{one['id']}: {node['html'][:120]}" for one in json.loads(found) for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_wrong(page, report, scheme, width):
    page.size(width)
    page.media(scheme=scheme)
    page.open(report)
    page.ask("document.getElementById('more').click()")
    page.ask("for (const one of document.querySelectorAll('details')) one.open = true")
    assert violations(page) == []
    page.ask(
        "document.querySelector('.filters label').replaceWith(document.createElement('input'))"
    )
    assert any(re.match("label", one) for one in violations(page)), "a planted fault is not seen"


def test_axe_finds_nothing_wrong_with_comparison_and_index(browser, tmp_path):
    """Also where a cell's name, or an implementation's, is wider than a phone."""
    long = f"{'attention_of_a_library_' * 3} T_q=1,T_kv=2048,H=32,H_kv=8,d_h=128,bfloat16"
    for day in (1, 2):
        write_side(tmp_path / "runs", noisy(25, seed=day), (long, *NAMES[1:]), day=day)
    store = ["--store", str(tmp_path / "runs")]
    assert main(["compare", "20261201", "20261202", *store, "--out", str(tmp_path / "out")]) == 0
    assert main(["site", *store, "--out", str(tmp_path / "out")]) == 0
    browser.console.clear()
    for name in ("comparison.html", "index.html"):
        for scheme, width in (("light", 1280), ("dark", 390)):
            browser.media(scheme=scheme)
            browser.size(width)
            browser.open(tmp_path / "out" / name)
            assert browser.ask("document.documentElement.scrollWidth") == width
            assert violations(browser) == []
    assert browser.console == []

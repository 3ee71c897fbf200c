"""The page in a browser: what a reader does with pointer, keys and address, and what is never done.

Each test opens a file; with no Chromium on the machine they are skipped, and say so.
"""

from __future__ import annotations

import pytest

from impls.interface.problem import Problem
from tests.browsing import NASTY, VISIBLE, needs_browser, written
from tests.fake_run import cell

pytestmark = needs_browser


def shown(page, column: str) -> list[str]:
    """The texts of a column in the rows that are seen."""
    at = f"[...document.querySelectorAll('#cells th')].findIndex(h => h.dataset.key === '{column}')"
    return page.ask(f"{VISIBLE}.map(row => row.cells[{at}].textContent.trim())")


def choose(page, name: str, text: str) -> None:
    page.ask(
        f"(() => {{ const control = document.querySelector('form.filters').elements[{name!r}];"
        f" const options = [...control.options].map(option => option.textContent);"
        f" control.selectedIndex = options.indexOf({text!r});"
        " control.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )


def centre(page, selector: str) -> tuple[float, float]:
    page.ask(f"document.querySelector({selector!r}).scrollIntoView({{ block: 'center' }})")
    # Scrolling is told a frame later, and what is shown beside the pointer goes then.
    page.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    x, y = page.ask(
        f"(() => {{ const box = document.querySelector({selector!r}).getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    return x, y


def test_filters_leave_the_rows_that_have_the_value(page):
    choose(page, "implementation", "naive")
    assert set(shown(page, "implementation")) == {"naive"}
    choose(page, "T", "512")
    assert all("T=512," in problem for problem in shown(page, "problem"))
    choose(page, "mask", "full")
    choose(page, "H_kv", "8")
    assert shown(page, "problem") == ["B=1,T=512,H=8,d_h=64,float32"]
    assert page.ask("document.querySelector('.filters output').textContent") == "1 of 33 rows"
    page.ask("document.querySelector('.filters button').click()")
    assert len(shown(page, "problem")) == 33


@pytest.mark.parametrize("field", ["implementation", "T", "H", "H_kv", "d_h", "dtype", "pass"])
def test_sorting_by_a_field_is_by_its_values(page, field):
    choose(page, "sort", field)
    values = page.ask(f"""{VISIBLE}.map(row => {{
        const select = document.querySelector('form.filters').elements[{field!r}];
        return Number(row.dataset.f.split(' ')[select.dataset.field]); }})""")
    assert values == sorted(values) and len(values) == 33


def test_a_click_on_a_head_sorts_and_the_second_the_other_way(page):
    for direction in ("ascending", "descending"):
        page.ask("document.querySelector('th[data-key=time] button').click()")
        head = "document.querySelector('th[data-key=time]').getAttribute('aria-sort')"
        assert page.ask(head) == direction
        times = [float(t) for t in shown(page, "time") if t != "–"]
        assert times == sorted(times, reverse=direction == "descending") and len(times) > 25
        assert shown(page, "time")[-1] == "–"


def test_ratios_follow_the_baseline(page):
    choose(page, "implementation", "sdpa_flash")
    choose(page, "T", "512")
    choose(page, "mask", "full")
    assert shown(page, "times_baseline") == [f"{0.008 / 0.00615:.2f}"]
    choose(page, "baseline", "chunked")
    assert shown(page, "times_baseline") == [f"{0.009 / 0.00615:.2f}"]
    head = page.ask("document.querySelector('th[data-key=times_baseline]').textContent")
    assert head == "× chunked (1 launch)"
    choose(page, "implementation", "all")
    flagged = [
        r
        for r, f in zip(shown(page, "times_baseline"), shown(page, "flags"), strict=True)
        if f != "–"
    ]
    assert set(flagged) == {"–"}
    # Back at the run's own baseline every ratio is as it was written.
    page.ask("document.querySelector('.filters button').click()")
    choose(page, "baseline", "naive")
    here = shown(page, "times_baseline")
    page.ask("location.hash = ''")
    page.open(page.ask("location.href"))
    assert shown(page, "times_baseline") == here


def test_findings_and_the_figure_of_ratios_follow_the_baseline(page):
    figure = "document.querySelector('#figure-speed_up .card').textContent"
    told = "document.querySelector('.told').textContent"
    said = "document.querySelector('#figure-speed_up .against')"
    before = page.ask("document.querySelector('main').innerText")
    assert "Speed-up over naive" in page.ask(figure) and "× naive" in page.ask(told)
    assert page.ask(f"{said}.hidden")
    choose(page, "baseline", "chunked")
    page.until(f"{figure}.includes('Speed-up over chunked')")
    assert "× chunked" in page.ask(told) and "× naive" not in page.ask(told)
    assert page.ask(f"{said}.innerText") == "Here against chunked; its files are against naive."
    assert page.ask("document.querySelector('.filters output').textContent").endswith(
        "rows; ratios to chunked"
    )
    # What came with it is as alive as what was there: marks, links, and who is hidden.
    mark = "#figure-speed_up [data-row]"
    page.move(*centre(page, mark))
    assert not page.ask("document.querySelector('.tip').hidden")
    link = "document.querySelectorAll('.told a[data-rows]')[1]"
    wanted = page.ask(f"{link}.dataset.rows").split()
    page.ask(f"{link}.click()")
    assert page.ask(f"{VISIBLE}.map(row => row.id.slice(1))") == wanted
    page.ask("document.querySelector('.filters button').click()")
    # A link to it opens with it.
    address = page.ask("location.href")
    choose(page, "baseline", "naive")
    page.until(f"{figure}.includes('Speed-up over naive')")
    page.ask("document.activeElement.blur()")
    assert page.ask("document.querySelector('main').innerText") == before
    page.open(address)
    page.until(f"{figure}.includes('Speed-up over chunked')")


def test_where_nothing_can_be_unpacked_findings_and_figures_say_whose_they_are(page):
    """A browser without DecompressionStream."""
    page.ask("delete window.DecompressionStream")
    choose(page, "baseline", "chunked")
    page.until("document.querySelector('.filters output').textContent.includes('but findings')")
    said = page.ask("document.querySelector('#figure-speed_up .against').innerText")
    assert said.startswith("Drawn against naive, not chunked: python -m reports RUN --baseline")
    assert "Speed-up over naive" in page.ask("document.querySelector('#figure-speed_up').innerText")


def test_a_mark_tells_its_cell_and_leads_to_its_row(page):
    mark = ".card [data-row]"
    number = page.ask(f"document.querySelector({mark!r}).dataset.row")
    page.move(*centre(page, mark))
    told = page.ask("document.querySelector('.tip').innerText")
    assert not page.ask("document.querySelector('.tip').hidden")
    for text in page.ask(f"[...document.querySelector('#r{number}').cells].slice(0, 3)"
                         ".map(cell => cell.textContent.trim())"):  # fmt: skip
        assert text in told
    page.click(*centre(page, mark))
    assert page.ask("document.querySelector('tr.here').id") == f"r{number}"
    page.move(1, 1)
    assert page.ask("document.querySelector('.tip').hidden")


def test_keys_go_from_mark_to_mark_and_to_the_row(page):
    page.ask("document.querySelector('.card').focus()")
    page.press("ArrowRight")
    page.press("ArrowRight")
    lit = page.ask("document.querySelector('.card .lit').dataset.row")
    assert lit == page.ask("document.querySelectorAll('.card [data-row]')[1].dataset.row")
    assert not page.ask("document.querySelector('.tip').hidden")
    page.press("Escape")
    assert page.ask("document.querySelector('.tip').hidden")
    page.press("ArrowRight")
    lit = page.ask("document.querySelector('.card .lit').dataset.row")
    page.press("Enter")
    assert page.ask("document.querySelector('tr.here').id") == f"r{lit}"


def test_everything_can_be_reached_with_the_tab_key(page):
    reached = set()
    for _ in range(120):
        page.press("Tab")
        reached.add(page.ask("document.activeElement.name || document.activeElement.className"))
    assert {"implementation", "T", "status", "sort", "baseline", "text", "card"} <= reached


def test_a_legend_entry_hides_all_of_its_implementation(page):
    parts = "[...document.querySelectorAll('.card [data-of]')]"
    names = page.ask("[...document.querySelectorAll('.legend button')].map(b => b.textContent)")
    number = names.index(NASTY)
    seen = f"{parts}.filter(p => p.getBoundingClientRect().width && p.dataset.of === '{number}')"
    assert page.ask(f"{seen}.length") > 4
    assert page.ask(f"{seen}.some(part => part.textContent.startsWith('a \"b\" <i>&-2'))")
    page.ask(f"document.querySelectorAll('.legend button')[{number}].click()")
    assert page.ask(f"{seen}.length") == 0
    others = f"{parts}.filter(p => p.getBoundingClientRect().width)"
    assert page.ask(f"{others}.length") > 20
    button = f"document.querySelectorAll('.legend button')[{number}]"
    assert page.ask(f"{button}.getAttribute('aria-pressed')") == "false"


def test_the_address_keeps_the_state(page):
    choose(page, "implementation", NASTY)
    choose(page, "sort", "% of bound")
    choose(page, "baseline", "chunked")
    page.ask("document.querySelectorAll('.legend button')[1].click()")
    address, before = page.ask("location.href"), shown(page, "problem")
    assert "implementation=a+%22b%22" in address and "hide=" in address
    page.open(address)
    assert shown(page, "problem") == before and set(shown(page, "implementation")) == {NASTY}
    form = "document.querySelector('form.filters')"
    assert page.ask(f"{form}.baseline.value") == "chunked"
    assert page.ask(f"{form}.sort.selectedOptions[0].textContent") == "% of bound"
    assert page.ask("[...document.querySelectorAll('.legend [aria-pressed=false]')].length") == 1


def test_a_finding_shows_its_rows_and_its_figure(page):
    link = "document.querySelector('.findings a[data-rows]')"
    wanted = page.ask(f"{link}.dataset.rows").split()
    page.ask(f"{link}.click()")
    assert page.ask(f"{VISIBLE}.map(row => row.id.slice(1))") == wanted
    figure = page.ask("document.querySelector('.findings a[href^=\"#figure-\"]').hash.slice(1)")
    assert page.ask(f"document.getElementById({figure!r}).tagName") == "FIGURE"


def test_a_thousand_rows_are_paged(browser, tmp_path):
    lengths = range(1, 1101)
    problem = Problem.parse("T=8,H=1,d_h=8")
    many = [cell("naive", problem.with_(T_q=T, T_kv=T), 1e-6 * T) for T in lengths]
    browser.open(written(tmp_path, many))
    assert len(browser.ask(f"{VISIBLE}.map(row => row.id)")) == 500
    for _ in range(2):
        browser.ask("document.querySelector('.pages button:last-child').click()")
    assert browser.ask("document.querySelector('.pages span').textContent") == "page 3 of 3"
    assert len(browser.ask(f"{VISIBLE}.map(row => row.id)")) == 100
    browser.open(browser.ask("location.href"))
    assert len(browser.ask(f"{VISIBLE}.map(row => row.id)")) == 100
    browser.ask("location.hash = 'r7'")
    browser.until("document.querySelector('tr.here')?.id === 'r7'")
    assert browser.ask("document.querySelector('.pages span').textContent") == "page 1 of 3"

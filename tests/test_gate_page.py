"""docs/gate.md holds what `make numbers` makes of the launches, and tells the codes there are."""

from __future__ import annotations

import re

import pytest

from results.verdict import VERDICTS
from tests.gate_numbers import PAGE, block, injection_rows, of_page

TEXT = PAGE.read_text(encoding="utf-8")


NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.slow
def test_the_page_holds_what_the_command_says():
    """Word for word; a count may differ by one where another processor rounds otherwise."""
    page, made = of_page(TEXT), block()
    assert NUMBER.sub("#", page) == NUMBER.sub("#", made)
    pairs = zip(NUMBER.findall(page), NUMBER.findall(made), strict=True)
    assert [(a, b) for a, b in pairs if abs(float(a) - float(b)) > 1] == []


def numbers_of(row: str) -> list[float]:
    """The numbers of a row's cells, "2 of 700" being two."""
    return [float(number) for number in NUMBER.findall(row)]


def test_the_gate_keeps_on_the_page_what_it_promises():
    """0.5 % of unchanged runs may fail, 1 % of synthetic ones; a fifth of the cells be suspects."""
    rows = re.findall(r"^\| (quiet|contended) \| (.+?) \| (.+)$", of_page(TEXT), re.MULTILINE)
    assert len(rows) == 6
    for machine, summary, figures in rows:
        failed, runs, _, five, ten, suite, suspects, cells = numbers_of(figures)
        assert runs == 1500 and failed <= 0.005 * runs, (machine, summary)
        least = {"lower quartile": 94.0, "minimum": 96.0, "median": 93.0}[summary]
        assert five >= (99.0 if machine == "quiet" else least)
        assert ten >= 97.0 and suite >= 95.0, (machine, summary)
        assert suspects < cells / 5
    synthetic = re.findall(r"^\| [\d.]+ % \| (\d+) of (\d+) \|", of_page(TEXT), re.MULTILINE)
    assert [runs for _, runs in synthetic] == ["700"] * 3
    assert max(int(failed) for failed, _ in synthetic) <= 7


def test_the_history_keeps_on_the_page_what_it_promises():
    """One flat series in a hundred may alert; +5 % shows after 5 nights, of twice the noise 10."""
    rows = dict(re.findall(r"^\| ([12]) % \| (.+)$", of_page(TEXT), re.MULTILINE))
    quiet, noisy = numbers_of(rows["1"]), numbers_of(rows["2"])
    assert quiet[0] <= 1.0 and noisy[0] <= 1.0
    assert quiet[2] >= 95.0 and noisy[3] >= 85.0


def test_the_page_holds_the_injection_as_it_is_found_now():
    """The part of the tables that is quick to make."""
    rows = injection_rows()
    assert "\n".join(rows) in of_page(TEXT)
    assert rows[2] == "| lower quartile | 20 | 0 |"


def test_every_verdict_is_told_with_its_code():
    told = dict(
        re.findall(r"^\| (\w+) \|.*\| ([^|]+) \|$", TEXT.split("What it was measured")[0], re.M)
    )
    assert set(VERDICTS) <= set(told)
    assert told["regressed"] == "1" and told["new"] == "0"

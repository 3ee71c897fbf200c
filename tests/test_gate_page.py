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

"""docs/gate.md holds what `make numbers` makes of the launches, and tells the codes there are."""

from __future__ import annotations

import re

import pytest

from results.verdict import VERDICTS
from tests.gate_numbers import PAGE, block, injection_rows, of_page

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_holds_what_the_command_says():
    assert of_page(TEXT) == block()


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

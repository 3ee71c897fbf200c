"""The allocator's policy keeps a cell with temporaries of 1 MB steady from launch to launch."""

from __future__ import annotations

import pytest

from suites.measure import allocator
from tests.allocator_launches import CLOSING, OPENING, PAGE, Launch, launches, spread, table


def test_the_page_shows_ten_launches_with_the_policy_and_without():
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(OPENING) + len(OPENING) : text.index(CLOSING)].strip().splitlines()
    some = [Launch(1e-3, 9e-4, 1.0, 0, "steady"), Launch(2e-3, 9e-4, 2.0, 500, "default")]
    made = table(some, some)
    assert shown[:2] == made[:2] and len(shown) == 4
    spreads = [float(row.split("|")[7].strip(" %")) for row in shown[2:]]
    zeroed = [int(row.split("|")[8].split("to")[1]) for row in shown[2:]]
    assert spreads[0] < 10
    assert zeroed[0] == 0 < 100 < zeroed[1]


def test_a_row_says_what_the_launches_were():
    found = [Launch(2e-3, 8e-4, 1.75, 480.0, "default"), Launch(1e-3, 8e-4, 1.25, 0.0, "default")]
    row = table(found, found)[2].split("|")
    assert [cell.strip() for cell in row[2:-1]] == [
        "1.00 ms",
        "2.00 ms",
        "49.0 %",
        "0.0 %",
        "1.25 to 1.75",
        "23.8 %",
        "0 to 480",
    ]


@pytest.mark.slow
def test_ten_launches_agree_within_ten_per_cent_under_the_policy():
    """Of what the same arithmetic takes beside it, whatever the machine's speed then."""
    steady, default = launches()
    assert all(one.policy.startswith(allocator.STEADY) for one in steady)
    assert max(one.faults_per_call for one in steady) < 1
    assert max(one.faults_per_call for one in default) > 100
    assert spread([one.of_kept for one in steady]) < 0.10

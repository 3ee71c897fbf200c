"""A comparison of very many cells, or of odd ones, as Markdown, JUnit and error lines."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from results.comparable import Reason
from results.verdict import Comparison, Verdict, exit_code, ordered
from results.verdict_ci import github_lines, junit
from results.verdict_markdown import LONGEST, markdown
from results.verdict_text import change_text, conclusion, p_text

NAME = "sdpa_flash B=1,T={},H=8,d_h=64,float32,causal forward_backward hot cpu_time"


def verdict(n, word="regressed", **changes):
    given = {"ratio": 1 + n / 1000, "low": 1.0, "high": 1.5, "p": 1e-6, "base_s": 1e-3}
    return Verdict(NAME.format(n), word, 20, 20, **given | changes)


def comparison(*verdicts):
    return Comparison("base", "head", 25, 25, ordered(verdicts))


def test_markdown_fits_a_comment_and_counts_what_does_not():
    words = ("regressed", "improved", "inconclusive")
    found = comparison(*(verdict(n, word) for word in words for n in range(1, 1500)))
    text = markdown(found, 1)
    assert 50_000 < len(text) <= LONGEST
    assert "1499 regressed, 1499 inconclusive, 1499 improved" in text.splitlines()[0]
    rows = text.count("| `sdpa_flash")
    told = [int(line.split()[2]) for line in text.splitlines() if line.startswith("… and")]
    assert rows > 100 and rows + sum(told) == 1499
    assert text.count("(no room for them here: --json has all)") == 2
    # The largest slowdown is the first row.
    assert "T=1499," in text[text.index("| `") :].splitlines()[0]


def test_markdown_makes_no_markup_of_what_a_library_said():
    bad = verdict(1, "broken", reasons=("</td> | @everyone <script>\nsecond line",))
    text = markdown(comparison(bad), 5)
    assert "<script>" not in text and "@everyone" not in text and "\\|" in text
    assert "GPU time: not measured" in text
    on_cuda = Verdict("naive T=1 forward hot cuda_event", "unchanged", 20, 20)
    assert "GPU time" not in markdown(comparison(on_cuda), 0)


def test_junit_is_xml_whatever_a_library_printed():
    odd = verdict(1, "broken", reasons=("\x1b[31m \x00 <&> \ud800 é",))
    suite = ElementTree.fromstring(junit(comparison(odd, verdict(2)), 1).split("\n", 1)[1])
    assert (suite.get("errors"), suite.get("failures")) == ("1", "1")
    message = suite.find(".//error")
    assert message is not None and "<&>" in message.get("message", "")


def test_what_may_stay_is_skipped_with_its_reason():
    waived = verdict(1, waiver="known (until 2027-01-01)")
    shown = verdict(2, tier="informational")
    found = comparison(waived, shown, verdict(3, "unchanged"))
    assert exit_code(found) == 0
    suite = ElementTree.fromstring(junit(found, 0).split("\n", 1)[1])
    assert (suite.get("failures"), suite.get("skipped"), suite.get("tests")) == ("0", "2", "3")
    assert github_lines(found, 0) == []
    assert "2 regressed (1 waived, 1 informational), 1 unchanged" in markdown(found, 0)


@pytest.mark.parametrize(("failing", "lines"), [(1, 1), (10, 10), (11, 10), (500, 10)])
def test_error_lines_are_ten_at_most_and_count_the_rest(failing, lines):
    found = comparison(*(verdict(n, reasons=("50 % more\nof it",)) for n in range(failing)))
    told = github_lines(found, 1)
    assert len(told) == lines
    assert not any("\n" in line for line in told) and "%25" in told[0] and "%0A" in told[0]
    if failing > 10:
        assert f"and {failing - 9} more" in told[-1]


def test_nothing_compared_is_an_error_in_every_output():
    found = comparison()
    assert exit_code(found) == 5
    assert 'errors="1"' in junit(found, 5) and len(github_lines(found, 5)) == 1
    assert markdown(found, 5).startswith("### BROKEN: 0 cells: nothing was compared")


def test_numbers_read_as_people_write_them():
    shown = [change_text(ratio) for ratio in (1.0523, 0.969, 1.0, 3.4, None)]
    assert shown == ["+5.2 %", "−3.1 %", "+0.0 %", "3.40x", "–"]
    assert [p_text(p) for p in (0.2, 0.01, 0.0034, 2.1e-10, None)] == [
        *("0.20", "0.01", "3e-3", "2e-10", "–")
    ]


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (0.12909944487358055, 0.31622776601683794, "0.1291 → 0.3162"),
        (0.12909944487358055, 0.12909944487358058, "0.12909944487358055 → 0.12909944487358058"),
        (0.3, 0.0, "0.3 → 0.0"),
    ],
)
def test_a_setting_is_told_in_four_digits_where_these_differ(was, now, told):
    reason = Reason("settings.budget_s", was, now, "blocking")
    assert reason.text == f"method changed: budget_s {told}"


def test_what_seems_faster_and_was_not_confirmed_is_named_though_it_passes():
    """As of `ab` whose time limit left no room: unchanged is not all that is known."""
    seems = {"suspect": "faster", "is_confirmed": False}
    found = comparison(
        verdict(1, "unchanged", **seems | {"ratio": 0.9}),
        verdict(2, "unchanged", **seems | {"ratio": 0.7}),
        verdict(3, "unchanged"),
        verdict(4, "unchanged", **seems | {"ratio": 0.5, "is_confirmed": True}),
    )
    assert exit_code(found, strict=True) == 0
    told = f"PASSED: 4 unchanged; 2 seem faster, not confirmed: {NAME.format(2)} {change_text(0.7)}"
    assert conclusion(found, 0) == told

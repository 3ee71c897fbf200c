"""results/gate.toml: thresholds said one way only, tiers, waivers that end, expected removals."""

from __future__ import annotations

import datetime

import pytest

from results.rules import RulesError, read_rules
from results.thresholds import ThresholdError, parse_threshold

TODAY = datetime.date(2026, 12, 1)


@pytest.mark.parametrize(
    ("text", "fails", "passes"),
    [("+10%", 150, 109), ("2.0x", 201, 199), ("0.5ms", 100.6, 100.4), ("+200%", 301, 299)],
)
def test_a_threshold_means_one_thing(text, fails, passes):
    """Case A05, liboqs PR#2134: of 100 ms, 10 % more is 110, 2x is 200, 200 % more is 300."""
    ratio = parse_threshold(text).as_ratio(base_s=0.1)
    assert passes / 100 < ratio <= fails / 100


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("200%", r'"\+200%"'),
        ("10 %", r'"\+10 %"'),
        ("5", "0.5ms"),
        (5, "no unit"),
        (0.001, "no unit"),
        ("0.9x", "no slowdown"),
        ("+0%", "no slowdown"),
        ("-5%", r'"\+10%"'),
        ("0 ms", "no slowdown"),
        ("nan x", "not understood"),
        (True, "no unit"),
        ("", "not understood"),
    ],
)
def test_an_ambiguous_threshold_is_refused_with_an_example(given, said):
    with pytest.raises(ThresholdError, match=said):
        parse_threshold(given)


def rules(tmp_path, text):
    file = tmp_path / "gate.toml"
    file.write_text(text, encoding="utf-8")
    return read_rules(file)


def test_the_rules_of_this_checkout_are_readable_and_ask_what_is_documented():
    given = read_rules()
    assert given.threshold.ratio == 1.03 and given.cumulative.ratio == 1.05
    assert (given.plan.screen, given.plan.confirm, given.plan.alpha) == (5, 20, 0.01)
    assert given.tier_of("naive anything") == "blocking"


def test_the_last_entry_that_fits_a_cell_counts(tmp_path):
    given = rules(
        tmp_path,
        """
[defaults]
threshold = "+5%"
[[cells]]
pattern = "naive *"
threshold = "1.5x"
[[cells]]
pattern = "* backward *"
tier = "informational"
[[cells]]
pattern = "naive T=1* *"
threshold = "2ms"
""",
    )
    assert given.threshold_of("sdpa T=1 forward hot wall").text == "+5%"
    assert given.threshold_of("naive T=63 forward hot wall").text == "1.5x"
    assert given.threshold_of("naive T=128 backward hot wall").as_ratio(1e-3) == pytest.approx(3)
    assert given.tier_of("naive T=128 backward hot wall") == "informational"
    assert given.tier_of("naive T=128 forward hot wall") == "blocking"


def test_a_waiver_holds_until_its_last_day(tmp_path):
    text = '[[waivers]]\npattern = "naive *"\nreason = "known"\nexpires = 2026-12-01\n'
    given = rules(tmp_path, text)
    assert given.waiver_of("naive T=1", TODAY) == ("known (until 2026-12-01)", None)
    after = TODAY + datetime.timedelta(days=1)
    assert given.waiver_of("naive T=1", after) == (None, "its waiver expired on 2026-12-01")
    assert given.waiver_of("sdpa T=1", TODAY) == (None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[waivers]]\npattern = "a"\nexpires = 2026-12-01', "no reason"),
        ('[[waivers]]\npattern = "a"\nreason = "b"', "no expires: write expires = 2027-01-31"),
        ('[[waivers]]\npattern="a"\nreason="b"\nexpires="soon"', "'soon' is no date"),
        ('[[cells]]\nthreshold = "+5%"', "no pattern"),
        ('[[cells]]\npattern = "a"\nthreshold = 5', "no unit"),
        ('[[cells]]\npattern = "a"\ntier = "soft"', "one of blocking, informational"),
        ('[defaults]\nthresold = "+5%"', "thresold is not known: cuda_floor"),
        ("[plan]\nscreen = 2.5", "write screen = 5"),
        ('[plan]\nalpha = "1%"', "write alpha = 0.01"),
        ("[plan]\nscreen = 1", "screen 0 or 2 and more"),
        ("[plan]\nconfirm = 0", "confirm 1 or more"),
        ("[plan]\nalpha = 2.0", "each p between 0 and 1"),
        ("cells = 1", "expected a list of tables"),
        ("[[oops", "not TOML"),
    ],
)
def test_a_mistake_in_the_rules_is_told_with_its_remedy(tmp_path, text, said):
    with pytest.raises(RulesError, match=said) as caught:
        rules(tmp_path, text)
    assert "gate.toml" in str(caught.value)

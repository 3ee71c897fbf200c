"""What a kernel promises of its code is held whatever compiled it."""

import pytest

from results.reading import Place
from results.static_profile import read_static
from results.static_promises import breaches
from tests.fake_profiles import loop, profile

PLACE = Place("cells.jsonl", 1)


def broken(**changes) -> list[str]:
    return [breach.promise for breach in breaches(read_static(profile(**changes), PLACE))]


def test_a_kernel_as_it_should_be_breaks_nothing():
    assert broken() == []


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({"hot_loop": None}, "multiplies"),
        ({"hot_loop__mix__mma": 0}, "multiplies"),
        ({"hot_loop__spill_stores": 1}, "keeps registers"),
        ({"hot_loop__spill_loads": 1}, "keeps registers"),
        ({"hot_loop__mix__select": 1}, "unmasked"),
        ({"hot_loop__mix__mufu": 63}, "exponentials"),
        ({"hot_loop__mix__mufu": 81}, "exponentials"),
        ({"resources__occupancy__blocks": 0}, "fits"),
    ],
)
def test_each_promise_can_be_broken_alone(changes, promise):
    assert broken(**changes) == [promise]


def test_rescaling_may_take_a_quarter_and_at_least_four_exponentials_more():
    # 64 elements a thread: 16 more; 8 elements: 4 more, where a quarter would be 2
    assert broken(hot_loop__mix__mufu=80) == []
    few = {"expected__exponentials": 8.0}
    assert broken(**few, hot_loop__mix__mufu=12) == []
    assert broken(**few, hot_loop__mix__mufu=13) == ["exponentials"]


def test_what_was_not_promised_is_not_asked():
    silent = {
        "expected__has_mma": None,
        "expected__exponentials": None,
        "expected__is_masked": None,
        "hot_loop": loop(mma=0, mufu=0, select=9),
    }
    assert broken(**silent) == []
    assert broken(expected__is_masked=True, hot_loop__mix__select=9) == []
    assert broken(**silent | {"hot_loop": None}) == []


def test_a_spill_in_the_loop_is_allowed_where_it_is_declared_or_the_block_is_no_default():
    spilled = {"hot_loop__spill_stores": 3}
    assert broken(**spilled, expected__may_spill=True) == []
    assert broken(**spilled, is_default=False) == []


def test_spills_outside_the_hot_loop_are_no_broken_promise():
    assert broken(resources__spill_stores=9, resources__spill_loads=9) == []


def test_a_breach_has_its_numbers():
    read = read_static(profile(hot_loop__spill_stores=3, hot_loop__spill_loads=5), PLACE)
    assert [b.text for b in breaches(read)] == ["the hot loop spills (3 stores and 5 loads)"]


def test_code_that_was_not_made_has_nothing_to_break():
    changes = {"status": "error", "reasons": ["no"], "resources": None, "hot_loop": None}
    assert broken(**changes) == []

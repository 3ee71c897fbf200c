"""Two sides, cell by cell: what is compared, what forbids it, and the exit code that follows."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from impls.interface.problem import Problem
from results.comparable import BLOCKING, IGNORED, blocking, comparable
from results.compare import Asked, compare
from results.rules import CellRule, Removal, Rules, Waiver
from results.side import side
from results.store import load_run
from results.thresholds import parse_threshold
from results.verdict import exit_code
from suites.measure.environment import FIELDS
from tests.fake_cells import cell, check_record
from tests.fake_launches import NAMES, noisy, write_side

TODAY = datetime.date(2026, 12, 1)
ALIKE = {"cpu_model": "A", "gpu_name": None, "threads": 1, "torch": "2.13.0+cpu"}


@pytest.fixture
def a_side(tmp_path):
    """`a_side(times, names, …)` is the side of one run of these launches."""
    made = iter(range(1, 29))

    def make(times_s, names=NAMES, **keywords):
        path = write_side(tmp_path, np.asarray(times_s), names, day=next(made), **keywords)
        return side(path.name, [load_run(path)])

    return make


def with_environment(**changes):
    return lambda header: header["environment"].update(ALIKE | changes)


def verdicts(found):
    return {one.name.split(" ")[0]: one.verdict for one in found.verdicts}


def slower(factor, column=1, *, seed=1, launches=25):
    times = noisy(launches, seed=seed)
    times[:, column] *= factor
    return times


def test_every_field_of_a_machine_key_forbids_a_comparison():
    assert {field.name for field in FIELDS if field.is_key} == BLOCKING
    assert {field.name for field in FIELDS} >= IGNORED
    assert not BLOCKING & IGNORED


@pytest.mark.parametrize(
    ("field", "value"),
    [("cpu_model", "B"), ("gpu_name", "H200"), ("threads", 2), ("torch", "2.10.0")],
)
def test_another_machine_is_refused_by_field(a_side, field, value):
    """Case A09, fast_mail_parser PR#128: 26 % between machines, 0.3 % within a job."""
    base = a_side(noisy(25), change=with_environment())
    head = a_side(slower(1.5), change=with_environment(**{field: value}), machine_key="other")
    found = compare(base, head)
    assert [reason.field for reason in blocking(found.reasons)] == [field]
    assert found.verdicts == () and exit_code(found) == 4
    allowed = compare(base, head, Asked(allow=[field]))
    assert exit_code(allowed) == 1
    assert any("(allowed)" in reason.text for reason in allowed.reasons)


def test_what_differs_without_meaning_does_not_forbid(a_side):
    base = a_side(noisy(25), change=with_environment(hostname="a", xformers="1", load_1min=0.1))
    head = a_side(noisy(25), change=with_environment(hostname="b", xformers="2", load_1min=3.0))
    found = compare(base, head)
    severities = {reason.field: reason.severity for reason in found.reasons}
    assert severities["hostname"] == "ignored" and severities["xformers"] == "warning"
    assert exit_code(found) == 0


def test_another_method_is_not_a_regression(a_side):
    """Case A10, newton#3992: fewer rounds without warming up moved the numbers 2 to 7 times."""
    base = a_side(noisy(25), change=lambda h: h["settings"].update(warmup_s=0.3, rounds=50))
    head = a_side(slower(4), change=lambda h: h["settings"].update(warmup_s=0.0, rounds=5))
    found = compare(base, head)
    texts = [reason.text for reason in blocking(found.reasons)]
    assert texts == ["method changed: warmup_s 0.3 → 0.0", "method changed: rounds 50 → 5"]
    assert exit_code(found) == 4 and found.verdicts == ()


def test_a_machine_key_made_of_unknown_fields_still_forbids(a_side):
    one, other = a_side(noisy(2)), a_side(noisy(2), machine_key="new-kind")
    (reason,) = blocking(comparable(one.headers[0], other.headers[0]))
    assert reason.field == "machine_key"


def test_no_change_passes_and_one_cell_is_named_alone(a_side):
    base = a_side(noisy(25))
    same = compare(base, a_side(noisy(25, seed=1)))
    assert same.counts == {"unchanged": 3} and exit_code(same, strict=True) == 0
    found = compare(base, a_side(slower(1.5)))
    assert verdicts(found) == {
        "chunked": "regressed",
        "naive": "unchanged",
        "sdpa_flash": "unchanged",
    }
    first = found.verdicts[0]
    assert first.fails and first.ratio == pytest.approx(1.5, rel=0.02)
    assert first.low and first.high and first.low < 1.5 < first.high
    assert (first.base_launches, first.p and first.p < 1e-6) == (20, True)
    assert exit_code(found) == 1


def test_an_improvement_is_named_and_passes(a_side):
    found = compare(a_side(slower(1.5)), a_side(noisy(25)))
    assert verdicts(found)["chunked"] == "improved" and exit_code(found) == 0


def test_launches_may_come_from_one_run_or_from_several(a_side, tmp_path):
    times = slower(1.5)
    folders = [
        write_side(tmp_path / "many", times[i : i + 1], day=i + 1, commit=f"c{i}")
        for i in range(25)
    ]
    many = side("many", [load_run(path) for path in folders])
    assert len(many.launches) == 25
    base = a_side(noisy(25))
    once, several = compare(base, a_side(times)), compare(base, many)
    assert [v.ratio for v in once.verdicts] == [v.ratio for v in several.verdicts]
    with pytest.raises(ValueError, match="given twice"):
        side("twice", [load_run(folders[0]), load_run(folders[0])])


def test_one_launch_a_side_describes_and_proves_nothing(a_side):
    found = compare(a_side(noisy(1)), a_side(3 * noisy(1)))
    assert found.counts == {"inconclusive": 3}
    assert found.refused and "6 launches a side would do" in found.refused
    assert found.verdicts[0].ratio == pytest.approx(3) and found.verdicts[0].high is None
    assert exit_code(found) == 2


def test_missing_cells_fail_unless_expected_or_allowed(a_side):
    """Case A02, lionagi PR#2124: what vanished was not compared, and all was green."""
    base, head = a_side(noisy(25)), a_side(noisy(25, 2, seed=1), NAMES[:2])
    found = compare(base, head)
    assert found.counts == {"missing": 1, "unchanged": 2}
    assert exit_code(found) == 4 and exit_code(found, allow_missing=True) == 0
    rules = Rules(expected_removed=(Removal("sdpa_flash *", "replaced"),))
    expected = compare(base, head, Asked(rules))
    assert exit_code(expected) == 0 and expected.verdicts[0].waiver == "replaced"


def test_nothing_in_common_is_a_failure_of_its_own(a_side):
    found = compare(a_side(noisy(25, 1), NAMES[:1]), a_side(noisy(25, 1), NAMES[1:2]))
    assert found.counts == {"missing": 1, "new": 1} and found.compared == 0
    assert exit_code(found, allow_missing=True) == 5


def test_a_new_cell_is_listed_and_passes(a_side):
    """Case A04, criterion.rs#530."""
    found = compare(a_side(noisy(25, 2), NAMES[:2]), a_side(noisy(25)))
    assert found.counts == {"new": 1, "unchanged": 2} and exit_code(found) == 0


def bad(status, launch, **changes):
    line = cell("chunked", Problem.parse("T=63,H=4,d_h=40"), launch=launch, **changes)
    return line | {"status": status, "reasons": ["because"]}


@pytest.mark.parametrize(("status", "code"), [("crashed", 5), ("error", 5), ("oom", 5)])
def test_a_cell_that_broke_in_one_launch_is_broken(a_side, status, code):
    def break_one(lines):
        kept = [x for x in lines if not (x["implementation"] == "chunked" and x["launch"] == 7)]
        return [*kept, bad(status, 7)]

    found = compare(a_side(noisy(25)), a_side(noisy(25), alter=break_one))
    assert verdicts(found)["chunked"] == "broken" and exit_code(found) == code
    assert "1 " + status in found.verdicts[0].reasons[0]


def test_a_wrong_result_is_no_speed_up(a_side):
    """It is twice as fast, timed and wrong: it fails like a regression, and no waiver covers it."""

    def spoil(lines):
        wrong = {"status": "wrong", "reasons": ["0.4 off"], "check": check_record(ok=False)}
        return [x | wrong if x["implementation"] == "chunked" else x for x in lines]

    rules = Rules(waivers=(Waiver("*", "anything", TODAY),))
    found = compare(a_side(noisy(25)), a_side(slower(0.5), alter=spoil), Asked(rules, today=TODAY))
    assert verdicts(found)["chunked"] == "broken"
    assert found.verdicts[0].is_wrong and exit_code(found) == 1


def test_flagged_rows_do_not_enter(a_side):
    def contend(lines):
        return [x | {"flags": ["contended"]} if x["launch"] > 20 else x for x in lines]

    # The five flagged launches are three times as slow; nobody is told so.
    times = noisy(25, seed=1)
    times[20:] *= 3
    found = compare(a_side(noisy(25)), a_side(times, alter=contend))
    assert found.counts == {"unchanged": 3}
    assert "head: 60 rows entered; flagged or failed were 15" in found.notes

    def all_contended(lines):
        return [x | {"flags": ["contended"]} for x in lines if x["implementation"] != "naive"] + [
            x for x in lines if x["implementation"] == "naive"
        ]

    found = compare(a_side(noisy(25)), a_side(noisy(25), alter=all_contended))
    assert found.counts == {"incomparable": 2, "unchanged": 1}
    assert found.verdicts[0].reasons == ("head: 25 contended",)
    assert exit_code(found) == 0 and exit_code(found, strict=True) == 3


def test_what_neither_side_can_run_is_not_missing(a_side):
    def lack(lines):
        return [*lines, *(bad("unavailable", n) | {"implementation": "flex"} for n in range(1, 26))]

    found = compare(a_side(noisy(25), alter=lack), a_side(noisy(25), alter=lack))
    assert "flex" not in verdicts(found)


def test_tiers_waivers_and_thresholds_decide_what_fails(a_side):
    base, head = a_side(noisy(25)), a_side(slower(1.08))
    rules = Rules(cells=(CellRule("chunked *", tier="informational"),))
    assert exit_code(compare(base, head, Asked(rules))) == 0
    rules = Rules(cells=(CellRule("chunked *", threshold=parse_threshold("+20%")),))
    assert verdicts(compare(base, head, Asked(rules)))["chunked"] != "regressed"
    rules = Rules(waivers=(Waiver("chunked *", "known", TODAY),))
    waived = compare(base, head, Asked(rules, today=TODAY))
    assert verdicts(waived)["chunked"] == "regressed" and exit_code(waived) == 0
    late = compare(base, head, Asked(rules, today=TODAY + datetime.timedelta(1)))
    assert exit_code(late) == 1
    assert "its waiver expired on 2026-12-01" in late.verdicts[0].reasons


def test_a_spread_that_is_known_raises_the_floor(a_side):
    base, head = a_side(noisy(25)), a_side(slower(1.05))
    assert verdicts(compare(base, head))["chunked"] == "regressed"
    name = compare(base, head).verdicts[0].name
    # 12 % between launches is 3.9 % of a ratio of 20: the floor is 8 %.
    asked = Asked(spreads={name: 0.12})
    assert verdicts(compare(base, head, asked))["chunked"] != "regressed"


def test_one_microsecond_on_a_cuda_clock_is_no_regression(a_side):
    """Events resolve half a microsecond: 5 % of 10 µs is nothing that was seen."""

    def unbound(lines):
        return [x | {"bound": None} for x in lines]  # ten times faster than these could be

    def on_cuda(lines):
        return [x | {"clock": "cuda_event"} for x in unbound(lines)]

    base, head = noisy(25) * 1e-2, slower(1.05) * 1e-2
    assert exit_code(compare(a_side(base, alter=unbound), a_side(head, alter=unbound))) == 1
    found = compare(a_side(base, alter=on_cuda), a_side(head, alter=on_cuda))
    assert exit_code(found) == 0
    assert [one.floor for one in found.verdicts] == pytest.approx([1.1] * 3, rel=0.05)


def test_on_cuda_the_median_is_judged_and_on_a_cpu_the_lower_quartile(a_side):
    def on_cuda(lines):
        return [x | {"clock": "cuda_event"} for x in lines]

    # `records` writes a median 0.5 % above the quartile.
    times = noisy(2)
    (on_cpu,) = (c for c in a_side(times).cells.values() if c.key[0] == "naive")
    (cuda,) = (c for c in a_side(times, alter=on_cuda).cells.values() if c.key[0] == "naive")
    assert list(on_cpu.times_s.values()) == pytest.approx(list(times[:, 0]))
    assert list(cuda.times_s.values()) == pytest.approx(list(1.005 * times[:, 0]))


def test_two_implementations_of_one_run_are_set_against_each_other(tmp_path):
    path = write_side(tmp_path, slower(1.5))
    run = load_run(path)
    base, head = (side("run", [run], implementation=name) for name in ("naive", "chunked"))
    found = compare(base, head)
    assert [one.verdict for one in found.verdicts] == ["regressed"]
    assert found.verdicts[0].name.startswith("* B=1,T=63")


def test_the_worst_comes_first(a_side):
    head = noisy(25)
    head[:, 0] *= 1.2
    head[:, 2] *= 1.6
    found = compare(a_side(noisy(25)), a_side(head))
    assert [one.name.split(" ")[0] for one in found.verdicts] == ["sdpa_flash", "naive", "chunked"]
    assert replace(found, verdicts=()).counts == {}

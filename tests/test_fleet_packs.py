"""Packs of a fleet, who has which row, and whose core it is."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suites.fleet.cores import claimed, whole_cores
from suites.fleet.ledger import Ledger
from suites.fleet.packing import LEAST_S, packs
from suites.measure.journal import row_of
from suites.supervisor.death import TRIES_FROM_OUTSIDE

ROOT = Path(__file__).resolve().parents[1]


def entry(group: int, implementation: str, estimate_s: float | None, decision: str = "run"):
    problem = {"T_q": group}
    identity = {"suite": "heads", "series": "H", "cell": f"{implementation}/{group}"}
    how = {"pass": "forward", "cache": "hot", "estimate_s": estimate_s, "decision": decision}
    return {**identity, **how, "problem": problem}


ENTRIES = st.lists(
    st.builds(
        entry,
        st.integers(0, 12),
        st.sampled_from(["naive", "flash", "chunked"]),
        st.none() | st.floats(0, 500),
        st.sampled_from(["run", "skip"]),
    ),
    min_size=1,
    max_size=40,
    unique_by=row_of,
)


@settings(max_examples=40)
@given(ENTRIES, st.integers(1, 9))
def test_packs_hold_every_row_once_and_what_is_compared_stays_together(entries, devices):
    found = packs(entries, devices)
    assert Counter(row for pack in found for row in pack) == Counter(map(row_of, entries))
    where = {row: n for n, pack in enumerate(found) for row in pack}
    packs_of = {(e["problem"]["T_q"], where[row_of(e)]) for e in entries}
    assert len(packs_of) == len({e["problem"]["T_q"] for e in entries})
    place = {row_of(e): n for n, e in enumerate(entries)}
    assert all(list(pack) == sorted(pack, key=place.__getitem__) for pack in found)


def test_every_device_has_a_pack_and_none_is_all_start():
    short = [entry(n, "naive", 1.0) for n in range(20)]
    assert [len(pack) for pack in packs(short, 4)] == [5, 5, 5, 5]
    long = [entry(n, "naive", 10.0) for n in range(100)]
    found = packs(long, 2)
    assert len(found) == 8, "four for each device"
    assert len(packs(long, 100)) == 100, "no device without one"
    assert len(packs(long, 20)) == 1000 // LEAST_S, "a pack is worth its start"
    assert packs([entry(1, "naive", 5.0)], 8) == [("heads/H/naive/1",)]


def test_packs_are_as_long_as_one_another_as_far_as_the_problems_allow():
    draw = random.Random(3)
    entries = [entry(n, "naive", draw.uniform(1, 60)) for n in range(60)]
    seconds = {row_of(e): e["estimate_s"] for e in entries}
    lengths = [sum(seconds[row] for row in pack) for pack in packs(entries, 3)]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) <= 4 / 3 * sum(lengths) / len(lengths)


@given(st.data())
def test_whatever_is_lost_each_row_is_accepted_once_or_given_up(data):
    rows = [str(n) for n in range(data.draw(st.integers(1, 12)))]
    cut = data.draw(st.integers(1, len(rows)))
    ledger, out, number = Ledger([rows[:cut], rows[cut:]] if rows[cut:] else [rows]), {}, 0
    accepted, given_up, losses = Counter(), [], Counter()
    while not ledger.is_done:
        held = Counter(row for left in out.values() for row in left)
        assert not held or max(held.values()) == 1, "no row is with two tasks"
        if ledger.is_waiting and (not out or data.draw(st.booleans())):
            number += 1
            out[number] = list(ledger.deal(number))
            continue
        task = data.draw(st.sampled_from(sorted(out)))
        left = out[task]
        does = data.draw(st.sampled_from(["finishes", "dies", "stops"] if left else ["stops"]))
        if does == "finishes":
            row = left.pop(0)
            ledger.starts(task, row)
            accepted[row] += ledger.accepts(task, row)
            assert ledger.accepts(task, row), "a further look is the same task's"
            assert not ledger.accepts(task + 1, row), "and nobody else's"
            continue
        if does == "dies":
            ledger.starts(task, left[0])
            losses[left[0]] += 1
        given_up += [row for row, _ in ledger.ends(task, "SIGKILL" if does == "dies" else None)]
        del out[task]
    assert Counter(given_up) + accepted == Counter(rows)
    assert all(losses[row] == TRIES_FROM_OUTSIDE for row in given_up)
    assert all(losses[row] < TRIES_FROM_OUTSIDE for row in accepted)


def test_a_row_whose_worker_was_lost_is_dealt_alone_and_after_all_others():
    ledger = Ledger([["a", "b", "c"], ["d"]])
    ledger.deal(1)
    ledger.starts(1, "a")
    assert ledger.accepts(1, "a")
    ledger.starts(1, "b")
    assert ledger.ends(1, "its node died") == []
    assert [ledger.deal(n) for n in (2, 3, 4)] == [("d",), ("c",), ("b",)]
    assert not ledger.accepts(1, "b"), "what a lost task still tells is nobody's"


def test_two_threads_of_a_core_are_one_device():
    pairs = {0: {0, 4}, 4: {0, 4}, 1: {1, 5}, 5: {1, 5}, 2: {2, 6}}
    found = whole_cores(pairs.keys(), lambda cpu: frozenset(pairs[cpu]))
    assert found == [{0, 4}, {1, 5}, {2}], "of the last core only one thread is allowed here"


CLAIM = """
import sys, time
from pathlib import Path
from suites.fleet.cores import claimed
with claimed(1, [frozenset({0}), frozenset({1})], Path(sys.argv[1])) as claim:
    print(claim.cpus[0], flush=True)
    time.sleep(600)
"""


def test_no_core_is_claimed_twice_and_a_killed_holder_gives_its_own_back(tmp_path):
    cores = [frozenset({0}), frozenset({1})]
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "0\n"
        with claimed(1, cores, tmp_path) as claim:
            holder.send_signal(signal.SIGKILL)
        assert claim.cpus == (1,), "the other one"
    with claimed(2, cores, tmp_path) as claim:
        assert claim.cpus == (0, 1)
    with pytest.raises(ValueError, match="3 cores are wanted and 2 are here"), claimed(3, cores):
        pass

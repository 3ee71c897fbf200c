"""What is counted is compared exactly."""

from __future__ import annotations

import numpy as np
import pytest

from results.__main__ import main
from results.compare import Asked, compare
from results.side import side
from results.store import load_run
from results.verdict import exit_code
from tests.fake_launches import noisy, write_side


@pytest.fixture
def a_side(tmp_path):
    """`a_side(times, …)` is the side of one run of these launches."""
    made = iter(range(1, 29))

    def make(times_s, **keywords):
        path = write_side(tmp_path, np.asarray(times_s), day=next(made), **keywords)
        return side(path.name, [load_run(path)])

    return make


def verdicts(found):
    return {one.name.split(" ")[0]: one.verdict for one in found.verdicts}


def test_counters_are_exact(a_side):
    def grow(lines):
        memory = {"peak_bytes": 1_000_001, "how": "profiler"}
        return [x | {"memory": memory} if x["implementation"] == "naive" else x for x in lines]

    def steady(lines):
        return [x | {"memory": {"peak_bytes": 1_000_000, "how": "profiler"}} for x in lines]

    base = a_side(noisy(25), alter=steady)
    found = compare(base, a_side(noisy(25, seed=1), alter=lambda x: grow(steady(x))))
    assert verdicts(found)["naive"] == "regressed" and exit_code(found) == 1
    assert found.verdicts[0].reasons[0] == "peak_bytes 1000000 → 1000001"
    back = compare(a_side(noisy(25), alter=lambda x: grow(steady(x))), base)
    assert verdicts(back)["naive"] == "improved"

    # What launches disagree on is not exact.
    def uneven(lines):
        return [x | {"memory": {"peak_bytes": 10 + x["launch"]}} for x in steady(lines)]

    assert compare(base, a_side(noisy(25), alter=uneven)).counts == {"unchanged": 3}


def with_counters(**counters):
    """Journal lines of which naive's one has these counters, the others none."""
    return lambda lines: [
        x | {"counters": counters} if x["implementation"] == "naive" else x for x in lines
    ]


@pytest.mark.parametrize(
    ("name", "now"), [("operators", 6), ("kernels", 6), ("torch_flop", 6), ("graph_breaks", 6)]
)
def test_one_more_of_what_is_counted_regresses_whatever_the_time_says(a_side, name, now):
    base = a_side(noisy(25), alter=with_counters(**{name: 5}))
    head = a_side(0.8 * noisy(25, seed=1), alter=with_counters(**{name: now}))
    found = compare(base, head)
    assert found.verdicts[0].verdict == "regressed" and exit_code(found) == 1
    assert found.verdicts[0].reasons == (f"{name} 5 → {now}",)
    back = compare(head, base)
    assert f"{name} {now} → 5" in next(v for v in back.verdicts if v.name[0] == "n").reasons


def test_what_only_one_side_knows_is_not_compared(a_side):
    base = a_side(noisy(25), alter=with_counters(operators=5, kernels=None))
    head = a_side(noisy(25, seed=1), alter=with_counters(operators=None, kernels=7))
    assert compare(base, head).counts == {"unchanged": 3}


def test_that_a_kernel_is_compiled_now_is_no_fault(a_side):
    base = a_side(noisy(25), alter=with_counters(operators=5, graphs=0, recompiles=0))
    head = a_side(noisy(25, seed=1), alter=with_counters(operators=None, graphs=1, recompiles=0))
    assert compare(base, head).counts == {"unchanged": 3}


def test_between_two_releases_of_torch_counters_are_told_and_decide_nothing(a_side):
    def other(header):
        header["environment"]["torch"] = "2.10.0"

    base = a_side(noisy(25), alter=with_counters(operators=5))
    head = a_side(noisy(25, seed=1), alter=with_counters(operators=6), change=other)
    found = compare(base, head, Asked(allow=["torch"]))
    assert found.counts == {"unchanged": 3}
    assert any(one.reasons == ("operators 5 → 6",) for one in found.verdicts)


def test_between_two_implementations_too(tmp_path):
    path = write_side(tmp_path, noisy(25), alter=with_counters(operators=9))
    run = load_run(path)
    base = side("base", [run], implementation="chunked")
    head = side("head", [run], implementation="naive")
    few = {"memory": {"peak_bytes": 1}}
    lean = write_side(
        tmp_path, noisy(25), day=2, alter=lambda lines: [line | few for line in lines]
    )
    found = compare(side("lean", [load_run(lean)], implementation="chunked"), head)
    assert compare(base, head).counts == {"unchanged": 1}
    (one,) = found.verdicts
    assert one.verdict == "unchanged" and one.reasons[0].startswith("peak_bytes 1 → ")


def test_show_prints_what_was_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def counted(lines):
        memory = {"peak_bytes": 98304, "allocations": 4, "allocated_bytes": 123456}
        return [x | {"memory": memory} for x in with_counters(operators=14, recompiles=2)(lines)]

    write_side(tmp_path, noisy(1), alter=counted)
    assert main(["show", "latest", "--counters", "--store", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith("naive"))
    assert {"14", "4", "123456", "98304", "2"} <= set(row.split())
    assert "kernels" not in out and "of bound" not in out
    assert max(map(len, out.splitlines())) <= 80

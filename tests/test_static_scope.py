"""What a static run was not asked for is neither missing nor lost."""

from __future__ import annotations

import pytest

from tests.fake_profiles import profile
from tests.static_bench import ALL, Bench


@pytest.fixture
def bench(tmp_path, capsys):
    return Bench(tmp_path, capsys)


def asked(**options):
    """A change of run.json: the options that its command had."""
    return lambda header: header["settings"].update(selection=options)


@pytest.mark.parametrize(
    "options",
    [{"archs": ["90"]}, {"archs": ["sm_90"]}, {"archs": ["sm90", "sm_100"]}],
)
def test_what_a_run_was_not_asked_for_is_not_missing(bench, options):
    bench.accept(ALL)
    bench.run(ALL[2:], change=asked(**options))
    assert bench.call("gate") == 0
    first, *_, last = bench.said().splitlines()
    assert "4 accepted profiles, of which it was asked for 2 (--arch)" in first
    assert last == "PASSED: 2 unchanged"
    bench.run(ALL[3:], change=asked(**options))
    assert bench.call("gate") == 4, "one that it was asked for is missing"


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, 3),
        ({"kernels": ["triton_flash_decode"]}, 0),
        ({"kernels": ["triton_flash_forward"]}, 3),
        ({"dtypes": ["fp16"]}, 0),
        ({"head_sizes": [64]}, 2),
        ({"archs": ["sm_90"], "head_sizes": [64]}, 1),
        ({"everything": True}, 3),
    ],
)
def test_missing_is_what_the_options_ask_for(bench, options, missing):
    bench.accept(ALL)
    # the last of ALL, sm_90 at d_h = 128, and one that nobody accepted
    bench.run([ALL[3], profile(arch="sm_80", d_h=40)], change=asked(**options))
    assert bench.call("gate") == 4
    assert (f"{missing} missing, " in bench.said().splitlines()[-1]) == (missing > 0)


@pytest.mark.parametrize("command", ["gate", "accept"])
def test_the_latest_is_of_shipped_kernels_whatever_was_brought_since(bench, command):
    """A profile of a user's kernel was the gate's latest: BROKEN, none of a shipped kernel."""
    bench.accept(ALL)
    name = bench.run(ALL)
    mine = profile(kernel="add", origin="add.py", is_default=False)
    bench.run([mine], change=asked(kernels=["add.py:add"]))
    assert bench.call(command) == 0
    assert f"run {name}" in bench.said().splitlines()[0]


def test_accepting_a_narrow_run_leaves_the_rest_of_the_baseline(bench):
    bench.accept(ALL)
    changed = profile(arch="sm_90", d_h=64, resources__registers=100)
    bench.run([changed], change=asked(archs=["sm_90"], kernels=["triton_flash_forward"]))
    assert bench.call("accept") == 0
    assert "1 missing, 1 improved" in bench.said().splitlines()[-1]
    bench.run([*ALL[:2], changed])
    assert bench.call("gate") == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"everything": True}, "--all"),
        ({"dtypes": ["fp16"]}, "--dtype"),
        ({"head_sizes": [64]}, "--d_h"),
        ({"sweep": {"num_warps": [8]}}, "--sweep"),
    ],
)
def test_a_run_beyond_the_gates_set_is_not_accepted(bench, options, said):
    bench.run(ALL, change=asked(**options))
    assert bench.call("accept") == 1
    assert f"was asked for {said}: the baseline is of what" in bench.said()


def test_a_sweep_leaves_nothing_missing(bench):
    bench.accept(ALL)
    bench.run(ALL[:1], change=asked(sweep={"num_warps": [8]}))
    assert bench.call("gate") == 4
    assert "was accepted in" in bench.said().splitlines()[-1]

"""What the sweeps over decoding and the backward answer, on runs whose answer is known."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from impls.interface.problem import Problem
from results.answers import backward, decode, decode_load, head_size, heads
from results.findings import findings
from results.store import load_run
from tests.fake_cells import FLOP_PER_S, cell

STEP = Problem.parse("T_q=1,T_kv=8192,H=32,H_kv=8,d_h=128,bfloat16")
SQUARE = Problem.parse("T=512,H=8,d_h=64")

ROOT = Path(__file__).parents[1]
SWEEPS = sorted({path.stem.removeprefix("bench_") for path in ROOT.glob("suites/bench_*.py")})


def step(name: str, H_kv: int, time_s: float, **changes) -> dict:
    problem = changes.pop("problem", STEP).with_(H_kv=H_kv)
    return cell(name, problem, time_s, suite="decode", series="H_kv at T_kv 8192", **changes)


def passes(name: str, forward_s: float, backward_s: float, **changes) -> list[dict]:
    problem = changes.pop("problem", SQUARE)
    same = {"dq": True, "dk": True, "dv": True}
    back = {"suite": "backward", "series": "T, full", "pass": "backward", "repeats": same}
    return [cell(name, problem, forward_s), cell(name, problem, backward_s, **back | changes)]


@pytest.fixture
def run_of(run_directory):
    def read(*records, **keywords):
        return load_run(run_directory(records=list(records), **keywords))

    return read


def sentence(found) -> str:
    assert found is not None
    return found.sentence


def test_who_gains_nothing_by_fewer_kv_heads_is_told_beside_who_gains(run_of):
    run = run_of(
        step("sdpa_flash", 32, 0.0703),
        step("sdpa_flash", 8, 0.0701),
        step("grouped_decode", 32, 0.0382),
        step("grouped_decode", 8, 0.0098),
        step("naive", 32, 0.2),
        step("naive", 8, 0.21),
    )
    found = decode.answer(run)
    # K and V of 8 heads, q and out: 2 bytes of 128·(2·8·8192 + 2·32) elements, in 9.8 ms.
    rate = 2 * 128 * (2 * 8 * 8192 + 2 * 32) / 0.0098
    assert rate == pytest.approx(3.43e9, rel=0.002)
    # Its two products bind the small machine of these cells: 14 % of 100 GFLOP/s.
    share = 4 * 32 * 8192 * 128 / 0.0098 / FLOP_PER_S
    assert share == pytest.approx(0.137, rel=0.01)
    assert sentence(found) == (
        "Decoding at T_kv = 8192 (B 1, H 32, d_h 128, bf16), sdpa_flash takes as long with 8 kv "
        "heads as with 32 (70.1 ms and 70.3 ms), while grouped_decode is 3.90 × as fast with 8 as "
        "with 32 (9.80 ms against 38.2 ms), reading its cache at 3.43 GB/s, 14 % of its bound, "
        "7.15 × the rate of sdpa_flash (1 launch)."
    )
    assert found is not None and len(found.cells) == 4


def test_who_is_slower_with_fewer_kv_heads_is_told_so(run_of):
    run = run_of(step("naive", 32, 0.1), step("naive", 1, 0.15))
    assert "naive takes 1.50 × as long with 1 kv head as with 32 (150 ms and 100 ms)" in sentence(
        decode.answer(run)
    )


def test_of_several_sizes_the_one_that_most_can_do_is_told_then_groups_of_four(run_of):
    run = run_of(
        *(step(name, H_kv, 0.01 * H_kv) for name in ("a", "b") for H_kv in (32, 8, 1)),
        step("c", 32, 0.3),
        step("c", 1, 0.1),
    )
    assert "with 1 kv head as with 32" in sentence(decode.answer(run))
    without = run_of(
        *(step(name, H_kv, 0.01 * H_kv) for name in ("a", "b") for H_kv in (32, 8, 1)),
        created="20261130T000000Z",
    )
    assert "with 8 kv heads as with 32" in sentence(decode.answer(without))


@pytest.mark.parametrize("doubt", [{"flags": ["contended"]}, {"status": "error", "timing": None}])
def test_a_decode_step_in_doubt_is_in_no_sentence(run_of, doubt):
    run = run_of(
        step("sdpa_flash", 32, 0.07),
        step("sdpa_flash", 8, 0.07),
        step("grouped_decode", 32, 0.038),
        step("grouped_decode", 8, 0.001, **doubt),
    )
    assert "grouped_decode" not in sentence(decode.answer(run))
    assert decode.answer(run_of(step("x", 8, 0.1), created="20261130T000000Z")) is None


def test_several_launches_are_told_by_their_medians(run_of):
    run = run_of(
        *(step("a", 32, 0.04 * n, launch=n) for n in (1, 2, 3)),
        *(step("a", 8, 0.01 * n, launch=n) for n in (1, 2, 3)),
    )
    told = sentence(decode.answer(run))
    assert "4.00 × as fast" in told and "20.0 ms against 80.0 ms" in told
    assert told.endswith("(median of 3 launches).")


def along(name, series, **times) -> list[dict]:
    """Steps that differ in one size, each with its time; "B1=0.01" is B = 1 in 10 ms."""
    found = []
    for written, time_s in times.items():
        size, number = written.rstrip("0123456789"), int(written.lstrip("BT_qkv"))
        sizes = {"T_kv": 2048, size: number, "causal": size == "T_q" and number > 1}
        problem = STEP.with_(**sizes)
        found.append(step(name, 8, time_s, problem=problem) | {"series": series})
    return found


def test_more_queries_sequences_and_a_longer_cache_are_told_beside_one(run_of):
    run = run_of(
        *along("grouped", "T_q at T_kv 2048", T_q1=0.010, T_q4=0.012, T_q16=0.021),
        *along("quick", "T_q at T_kv 2048", T_q4=0.009, T_q8=0.012, T_q16=0.018),
        *along("grouped", "B at T_kv 2048", B1=0.001, B16=0.0152),
        *along("slow", "B at T_kv 2048", B1=0.002, B16=0.03),
        *along("grouped", "T_kv at H_kv 8", T_kv1024=0.0005, T_kv16384=0.016),
    )
    found = decode_load.answer(run)
    # A cache has 2 · 8 · T_kv · 128 elements of 2 bytes; q and out are 2 · 32 · 128 more a step.
    assert 2 * 8 * 2048 * 128 * 2 == 8_388_608 and 2 * 32 * 128 * 2 == 16_384
    rates = [(8_388_608 + 16_384) * B / s / 1e9 for B, s in ((1, 0.001), (16, 0.0152))]
    assert rates == pytest.approx([8.405, 8.847], rel=1e-3)
    rates = [(4096 * T_kv + 16_384) / s / 1e9 for T_kv, s in ((1024, 0.0005), (16384, 0.016))]
    assert rates == pytest.approx([8.421, 4.195], rel=1e-3)
    assert sentence(found) == (
        "Decoding more at once (H 32, d_h 128, bf16): grouped takes 2.10 × as long for 16 queries "
        "as for 1 at T_kv = 2048, H_kv 8 (1 launch); grouped takes 15.2 × as long for 16 sequences "
        "as for 1 at T_kv = 2048, H_kv 8, reading at 8.85 GB/s against 8.40 GB/s (1 launch); "
        "grouped reads a cache of 4.19 MB (T_kv = 1024) at 8.42 GB/s and one of 67.1 MB "
        "(T_kv = 16384) at 4.20 GB/s (1 launch)."
    )
    assert found is not None and len(found.cells) == 6


def test_one_load_alone_and_one_in_doubt_are_no_answer(run_of):
    alone = run_of(*along("a", "B at T_kv 2048", B1=0.01), *along("a", "T_q at", T_q1=0.01))
    assert decode_load.answer(alone) is None
    both = along("a", "B at T_kv 2048", B1=0.01, B4=0.04)
    both[1]["flags"] = ["unsteady"]
    assert decode_load.answer(run_of(*both, created="20261130T000000Z")) is None


def test_the_backward_is_told_in_forwards_with_the_baselines_beside(run_of):
    both = {"suite": "backward", "pass": "forward_backward"}
    run = run_of(
        *passes("sdpa_flash", 0.00711, 0.0185),
        *passes("naive", 0.01, 0.031),
        cell("sdpa_flash", SQUARE, 0.0256, **both),
    )
    assert sentence(backward.answer(run)) == (
        "The backward of sdpa_flash takes 2.60 × its forward at T = 512 (H 8, d_h 64, fp32) "
        "(18.5 ms against 7.11 ms, for 2.5 × the FLOP; naive takes 3.10 ×; 1 launch); the "
        "gradients of all 2 repeat bit by bit."
    )


def test_gradients_that_do_not_repeat_are_told_by_name_whatever_the_flags(run_of):
    differing = {"repeats": {"dq": False, "dk": True, "dv": False}, "flags": ["contended"]}
    run = run_of(*passes("a", 0.01, 0.03, **differing), *passes("b", 0.01, 0.03))
    told = sentence(backward.answer(run))
    assert told.endswith("gradients that do not repeat bit by bit: a (dq, dv).")
    assert "The backward of b takes 3.00 ×" in told


def test_a_backward_without_its_forward_has_no_ratio(run_of):
    _, alone = passes("a", 0.01, 0.03)
    assert sentence(backward.answer(run_of(alone))) == (
        "The gradients of the one that was tried repeat bit by bit."
    )
    assert backward.answer(run_of(cell("a", SQUARE, 0.1), created="20261130T000000Z")) is None


def test_what_sweeps_answer_stands_between_what_leads_and_what_is_in_doubt(run_of):
    run = run_of(
        *passes("naive", 0.01, 0.03),
        *passes("sdpa_flash", 0.007, 0.018),
        step("a", 32, 0.04),
        step("a", 8, 0.01),
        cell("chunked", SQUARE, 0.01, flags=["contended"]),
    )
    told = [f.sentence.split()[0] for f in findings(run)]
    assert told[0] == "sdpa_flash" and told[-1] == "1", "the fastest first, the left out last"
    assert told.index("The") < told.index("Decoding") < told.index("1")
    assert [f.sentence.split()[0] for f in findings(run, most=1)] == [
        "sdpa_flash",
        "The",
        "Decoding",
    ]


@pytest.mark.parametrize("axis", [axis for axis in SWEEPS if axis != "given"])
def test_every_sweep_asks_and_is_answered(axis):
    asks = ast.get_docstring(ast.parse((ROOT / f"suites/bench_{axis}.py").read_text("utf-8")))
    assert asks is not None and "?" in asks.partition("\n\n")[0]
    answered_by = "findings" if axis == "sequence_length" else f"answers/{axis}"
    assert (ROOT / f"results/{answered_by}.py").exists()


def sized(name: str, suite: str, series: str, **times) -> list[dict]:
    """One cell a size written as "H4_128", 4 heads of 128, with its time."""
    found = []
    for written, time_s in times.items():
        H, d_h = map(int, written[1:].split("_"))
        problem = Problem.parse(f"T=256,H={H},d_h={d_h}")
        found.append(cell(name, problem, time_s, suite=suite, series=series))
    return found


def test_more_heads_and_shared_ones_are_told_beside_the_work_that_stays(run_of):
    shared = [
        cell("a", Problem.parse(f"T=256,H=12,H_kv={n},d_h=64"), time_s, suite="heads", series="kv")
        for n, time_s in ((12, 0.02), (1, 0.018), (4, 0.019))
    ]
    few = sized("quick", "heads", "H", H4_128=0.001, H8_64=0.001)
    run = run_of(*sized("a", "heads", "H", H8_64=0.02, H4_128=0.01, H32_16=0.025), *few, *shared)
    found = heads.answer(run)
    assert sentence(found) == (
        "At T = 256 (H 32, d_h 16, fp32) a takes 2.50 × as long as with H 4, d_h 128, for the same "
        "FLOP (1 launch); at T = 256 (H 12, H_kv 1, d_h 64, fp32) a takes 0.900 × as long as with "
        "H_kv 12, for the same FLOP (1 launch)."
    )
    assert found is not None and len(found.cells) == 4


def test_wider_heads_are_told_at_one_h_and_at_one_width(run_of):
    run = run_of(
        *sized("a", "head_size", "H", H4_16=0.01, H4_256=0.12, H4_64=0.03),
        *sized("a", "head_size", "d_model", H8_96=0.02, H24_32=0.04),
    )
    assert sentence(head_size.answer(run)) == (
        "At T = 256 (H 4, d_h 256, fp32) a takes 12.0 × as long as with d_h 16, for 16 × the FLOP "
        "(1 launch); at T = 256 (H 8, d_h 96, fp32) a takes 0.500 × as long as with H 24, d_h 32, "
        "for the same FLOP (1 launch)."
    )

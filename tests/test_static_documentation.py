"""docs/static-profile.md says of bounds, verdicts and pipes what baseline and code say."""

from __future__ import annotations

import re
from pathlib import Path

from results.static_baseline import read_baselines
from results.static_gate import VERDICTS
from results.static_profile import PIPES

PAGE = Path(__file__).parent.parent / "docs/static-profile.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Dense 16-bit peaks, TFLOP/s: NVIDIA's data sheets of A100, H100 and H200 SXM, and HGX B200.
PEAKS = {"A100": 312.0, "H100": 989.4, "H200": 989.4, "B200": 2250.0, "B200?": 2250.0}
ROW = re.compile(
    r"\| (?P<gpu>\S+) \| [^|]+ \| (?P<d_h>\d+) \| (?P<rate>\d+) \| (?P<share>\d+) "
    r"\| (?P<low>\d+)–(?P<high>\d+) `(?P<kernel>\w+)` (?P<arch>sm_\d+) "
    r"\| (?P<limit>\w+) \| \**(?P<read>\w+)"
)


def published() -> list[dict[str, str]]:
    rows = [match.groupdict() for match in ROW.finditer(TEXT)]
    assert len(rows) == 9
    return rows


def test_published_shares_are_of_the_data_sheets_peak():
    for row in published():
        assert int(row["share"]) == round(100 * int(row["rate"]) / PEAKS[row["gpu"]]), row


def test_inside_means_between_the_two_bounds():
    for row in published():
        share, low, high = (int(row[name]) for name in ("share", "low", "high"))
        where = "below" if share < low else "above" if share > high else "inside"
        assert row["read"] == where, row


def test_the_bounds_are_those_of_the_baseline():
    accepted = {
        (one.kernel, one.arch, one.d_h): one for one in read_baselines() if one.triton == "3.7.1"
    }
    looked_up = 0
    for row in published():
        one = accepted.get((row["kernel"], row["arch"], int(row["d_h"])))
        if one is None:
            assert row["d_h"] == "256", f"not in the baseline: {row}"
            continue
        assert one.no_overlap_percent is not None and one.overlap_percent is not None
        bounds = (round(one.no_overlap_percent), round(one.overlap_percent))
        assert (int(row["low"]), int(row["high"])) == bounds, row
        assert row["limit"] == one.limited_by, row
        looked_up += 1
    assert looked_up == 8


OF_BACKWARD = re.compile(
    r"\| (?P<arch>sm_\d+) \| (?P<kernel>keys|queries) \([^)]+\) \| (?P<d_h>\d+) "
    r"\| (?P<queries>\d+)×(?P<keys>\d+) w(?P<warps>\d) \| (?P<held>\d+) \| (?P<registers>\d+) "
    r"\| (?P<stores>\d+) \+ (?P<loads>\d+) \| (?P<bound>\d+) \| (?P<limit>\w+) \|"
)


def backward_rows() -> list[dict[str, str]]:
    rows = [match.groupdict() for match in OF_BACKWARD.finditer(TEXT)]
    assert len(rows) == 12
    return rows


def accepted_backward(row: dict[str, str], arch: str):
    name = f"triton_flash_backward_{row['kernel']}"
    (one,) = (
        one
        for one in read_baselines()
        if (one.triton, one.kernel, one.arch, one.d_h) == ("3.7.1", name, arch, int(row["d_h"]))
    )
    return one


def test_what_the_backward_stores_is_what_was_accepted():
    for row in backward_rows():
        one = accepted_backward(row, row["arch"])
        found = {
            **{"queries": one.block["BLOCK_Q"], "keys": one.block["BLOCK_KV"]},
            **{"warps": one.block["num_warps"], "registers": one.registers},
            **{"stores": one.spill_stores, "loads": one.spill_loads},
            "bound": round(one.overlap_percent or 0),
        }
        assert {name: int(row[name]) for name in found} == found, row
        assert row["limit"] == one.limited_by, row
        assert one.loop_spill_stores == one.loop_spill_loads == 0, row


def test_what_a_thread_of_the_backward_holds_follows_from_its_tile():
    for row in backward_rows():
        queries, keys, d_h, warps = (int(row[n]) for n in ("queries", "keys", "d_h", "warps"))
        sums = 2 * keys * d_h if row["kernel"] == "keys" else queries * d_h
        in_registers = 2 * queries * keys + (0 if row["arch"] == "sm_100" else sums)
        assert int(row["held"]) == in_registers / (32 * warps), row


OF_SHARED = re.compile(r"\| (sm_80|sm_90) \| (64|128) \|" + r" (\d+) \|" * 7)
# Of the kernel of keys: readers of a tile's operands, warps or groups of four, over keys, queries.
READERS = {("sm_80", 64): (4, 1), ("sm_80", 128): (1, 4), ("sm_90", 64): (2, 1)}


def test_the_shared_memory_of_the_kernel_of_keys_adds_up_to_its_bound():
    tiles = {(r["arch"], r["d_h"]): r for r in backward_rows() if r["kernel"] == "keys"}
    rows = OF_SHARED.findall(TEXT)
    assert len(rows) == 4
    for arch, head_size, *cycles in rows:
        row, d_h = tiles[arch, head_size], int(head_size)
        queries, keys = int(row["queries"]), int(row["keys"])
        products, scores, written, sums, arrive, numbers, whole = map(int, cycles)
        assert products == 4 * 2 * queries * keys * d_h / {"sm_80": 2048, "sm_90": 4096}[arch]
        over_keys, over_queries = READERS.get((arch, d_h), (2, 1))
        readers = over_keys * over_queries
        operands = keys / over_keys + queries / over_queries
        assert scores == readers * 2 * operands * d_h * 2 / 128
        through = 2 * keys * queries * 2 if over_queries > 1 else 0
        assert written == through / 128
        assert sums == readers * (through + 2 * queries * d_h / over_queries * 2) / 128
        assert arrive == 2 * queries * d_h * 2 / 128
        assert whole == scores + written + sums + arrive + numbers
        assert round(100 * products / max(products, whole)) == int(row["bound"])


OF_B200 = re.compile(
    r"\| (?P<kernel>keys|queries) \([^)]+\) \| (?P<d_h>\d+) \| (?P<queries>\d+)×(?P<keys>\d+) "
    r"\| (?P<mma>\d+) \| (?P<mufu>\d+) \| (?P<shared>\d+) \| (?P<bound>\d+) % \| (?P<limit>\w+) \|"
)


def test_what_limits_the_backward_on_b200_follows_from_its_cycles_and_is_in_the_baseline():
    accepted = {
        (one.kernel, one.arch, one.d_h): one for one in read_baselines() if one.triton == "3.7.1"
    }
    rows = [match.groupdict() for match in OF_B200.finditer(TEXT)]
    assert len(rows) == 4
    for row in rows:
        cycles = {pipe: int(row[pipe]) for pipe in ("mma", "mufu", "shared")}
        assert row["limit"] == max(cycles, key=lambda pipe: cycles[pipe]), row
        assert int(row["bound"]) == round(100 * cycles["mma"] / max(cycles.values())), row
        one = accepted[f"triton_flash_backward_{row['kernel']}", "sm_100", int(row["d_h"])]
        assert one.overlap_percent is not None
        assert (int(row["bound"]), row["limit"]) == (round(one.overlap_percent), one.limited_by)


def cycles_of_shared_memory(kernel: str, d_h: int, queries: int, keys: int) -> float:
    """As the page tells: operands, what arrives, and two float32 a score at half the bytes."""
    scores = 2 * (queries + keys) * d_h * 2
    if kernel == "queries":  # dq gains from k; k and v arrive
        return (scores + keys * d_h * 2 + 2 * keys * d_h * 2) / 128
    gains = arrives = 2 * queries * d_h * 2
    # Of shift and delta every warp of 8 brings a row of 32, needed or not.
    numbers = 2 * 8 * 32 * 4 + 2 * queries * keys * 4 / 2
    return (scores + gains + arrives + numbers) / 128


def test_the_shared_memory_of_the_backward_on_b200_adds_up():
    for row in (match.groupdict() for match in OF_B200.finditer(TEXT)):
        sizes = (int(row[name]) for name in ("d_h", "queries", "keys"))
        assert int(row["shared"]) == cycles_of_shared_memory(row["kernel"], *sizes), row
    told = re.findall(r"would allow (\d+) %|256 queries at d_h = 64: (\d+) %", TEXT)
    for (queries, keys, d_h), percent in zip(((128, 128, 128), (256, 128, 64)), told, strict=True):
        products = 4 * 2 * queries * keys * d_h / 8192
        bound = 100 * products / cycles_of_shared_memory("keys", d_h, queries, keys)
        assert "".join(percent) == f"{bound:.0f}"


def test_every_verdict_is_explained_with_its_exit_code():
    told: dict[str, int] = {}
    for names, code in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|[^|]*\| (\d) \|$", TEXT, re.M):
        told |= {name: int(code) for name in re.findall(r"`(\w+)`", names)}
    assert told == VERDICTS


def test_every_pipe_is_explained():
    told = re.findall(r"^\| `(\w+)` \|", TEXT, re.M)
    assert [name for name in told if name in PIPES] == [*PIPES]


def test_the_picture_and_the_test_it_names_are_there():
    for name in re.findall(r"\]\(([^):#]+)\)", TEXT):
        assert (PAGE.parent / name).is_file(), name
    assert (PAGE.parent.parent / "tests" / Path(__file__).name).is_file()
    assert Path(__file__).name in TEXT

"""Occupancy and bounds: against CUDA's worked numbers, brute force and hand arithmetic."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impls.interface.static_kernel import Build
from suites.static.architectures import capability_of, limits_of, rates_of
from suites.static.bound import bound_of_bytes, bound_of_products, cycles_of
from suites.static.compiler import Compiled
from suites.static.loops import Pass, work_of
from suites.static.occupancy import Need, occupancy, reasons_against
from suites.static.profile import profile_of
from tests.test_static_sass import code

KNOWN = (80, 86, 87, 89, 90, 100, 120)


@pytest.mark.parametrize(
    ("capability", "need", "blocks", "share", "limited_by"),
    [
        # CUDA C++ Best Practices Guide 13, 10.2: 37 registers and 128 threads have 12 blocks and
        # 75 % of 64 warps, 320 threads 4 blocks and 63 %.
        (80, Need(4, 37, 0), 12, 0.75, "registers"),
        (80, Need(10, 37, 0), 4, 0.625, "registers"),
        # cuda_occupancy.h: 128 registers and 64 threads, 4 warps on each of 4 schedulers.
        (86, Need(2, 128, 0), 8, 16 / 48, "registers"),
        # 100 KB hold two blocks of 40 000 bytes: each takes 1 KB more, in units of 128 bytes.
        (86, Need(2, 16, 40_000), 2, 4 / 48, "shared memory"),
        # At 200 registers a scheduler holds two warps, at 168 three; shared memory holds five.
        (89, Need(2, 200, 16_888), 4, 8 / 48, "registers"),
        (89, Need(2, 168, 16_888), 5, 10 / 48, "shared memory"),
        (90, Need(8, 255, 163_840), 1, 8 / 64, "registers"),
        (90, Need(12, 168, 197_024), 1, 12 / 64, "registers"),
        (100, Need(4, 128, 40_000, 256), 2, 8 / 64, "tensor memory"),
        (120, Need(1, 16, 0), 24, 0.5, "blocks"),
    ],
)
def test_occupancy_is_that_of_published_examples(capability, need, blocks, share, limited_by):
    found = occupancy(need, limits_of(capability))
    assert (found.blocks, found.share, found.limited_by) == (blocks, share, limited_by)


def placed_one_by_one(need: Need, capability: int) -> int:
    """Blocks put on an SM until one does not fit: warps on the scheduler with the most room."""
    limits = limits_of(capability)
    per_warp = -(-need.registers * 32 // 256) * 256
    schedulers = [limits.registers // 4] * 4
    shared, columns, warps = limits.shared_bytes, limits.tensor_memory_columns, limits.warps
    # The hardware's own check of a block, before it is placed.
    if per_warp * -(-need.warps // 4) * 4 > limits.block_registers:
        return 0
    if need.shared_bytes > limits.block_shared_bytes:
        return 0
    taken = -(-(need.shared_bytes + 1024) // 128) * 128
    for block in range(limits.blocks):
        for _ in range(need.warps):
            schedulers.sort()
            schedulers[-1] -= per_warp
        shared, warps = shared - taken, warps - need.warps
        columns -= need.tensor_memory_columns
        if min(schedulers) < 0 or shared < 0 or warps < 0 or columns < 0:
            return block
    return limits.blocks


@given(
    capability=st.sampled_from(KNOWN),
    warps=st.sampled_from((1, 2, 3, 4, 5, 8, 12, 16, 32)),
    registers=st.integers(1, 255),
    shared_bytes=st.integers(0, 240_000),
    columns=st.sampled_from((0, 32, 128, 512)),
)
def test_occupancy_is_what_placing_blocks_one_by_one_gives(
    capability, warps, registers, shared_bytes, columns
):
    need = Need(warps, registers, shared_bytes, columns if capability == 100 else 0)
    found = occupancy(need, limits_of(capability))
    assert found.blocks == placed_one_by_one(need, capability)
    # A block that breaks no limit fits, and the other way round.
    assert (found.blocks == 0) == bool(reasons_against(need, limits_of(capability)))


def test_each_exceeded_limit_is_told_with_both_numbers():
    need = Need(warps=36, registers=255, shared_bytes=240_000, tensor_memory_columns=896)
    assert reasons_against(need, limits_of(100)) == [
        "a block takes 294912 registers, 65536 are the limit",
        "a block takes 240000 bytes of shared memory, 232448 are the limit",
        "a block takes 896 columns of tensor memory, 512 are the limit",
        "a block takes 1152 threads, 1024 are the limit",
    ]
    assert reasons_against(Need(8, 255, 227 * 1024, 512), limits_of(100)) == []
    assert reasons_against(Need(4, 32, 227 * 1024), limits_of(80))


def test_architectures_are_written_as_people_write_them():
    assert capability_of("sm_90") == capability_of("sm90") == capability_of("90") == 90
    chips = {"a100": 80, "h100": 90, "H200": 90, "b200": 100}
    assert {chip: capability_of(chip) for chip in chips} == chips
    with pytest.raises(ValueError, match=r"sm_75 is not known: one of sm_80"):
        capability_of("sm_75")
    with pytest.raises(ValueError, match="write sm_90, or a100, h100, h200, b200"):
        capability_of("hopper")


def test_rates_are_those_whose_products_are_the_published_peaks():
    # SMs and GHz from NVIDIA's architecture papers, TFLOP/s from the data sheets.
    for capability, processors, ghz, peak in (
        (80, 108, 1.410, 312), (90, 132, 1.830, 989), (100, 148, 1.850, 2250),
    ):  # fmt: skip
        rates = rates_of(capability)
        assert rates is not None
        assert rates.mma_flop * processors * ghz / 1e3 == pytest.approx(peak, rel=0.01)
    assert rates_of(120) is None, "they differ between products"


def cycles(capability, warps, *texts, bulk_bytes=0.0):
    read = code(*texts)
    rates = rates_of(capability)
    assert rates is not None
    work = work_of(read, Pass(range(len(read.instructions)), warps), {})
    return cycles_of(read.instructions, warps, work, rates, bulk_bytes), rates


def test_cycles_of_each_pipe_by_hand():
    # 8 warps on sm_90: 256 lanes.
    found, _ = cycles(
        90,
        8,
        "HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR4], R24",
        "MUFU.EX2 R3, R3",
        "MUFU.EX2 R3, R3",
        "FFMA R3, R3, R4, R5",
        "IMAD.MOV.U32 R3, RZ, RZ, R4",
        "FMNMX R3, R3, R4, !PT",
        "FSEL R3, R3, R4, P0",
        "F2FP.BF16.F32.PACK_AB R4, R5, R6",
        "SHFL.BFLY PT, R4, R5, 0x1, 0x1f",
        "LDS.128 R4, [R5]",
        bulk_bytes=1280.0,
    )
    assert found == {
        "mma": 2 * (2 * 64 * 128 * 16) / 4096,  # two warp groups
        "mufu": 2 * 256 / 16,
        "fp32": 2 * 256 / 128,
        "alu": 3 * 256 / 64,
        "shuffle": 256 / 32,
        # Each warp group reads 128 × 16 elements of 2 bytes, each warp 512 bytes, and the copies.
        "shared": (2 * 4096 + 8 * 512 + 1280) / 128,
        "issue": 10 * 8 / 4,
    }


def test_a_tile_of_flash_attention_has_the_cycles_that_its_authors_give():
    """FlashAttention-3 (2024), 3.2: at d_h = 128 exponentials take half of the products' time.

    On H100, 989 TFLOP/s of products against 3.9 of exponentials, 512 FLOP for each exponential.
    """
    products = ["HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR4], R24"] * 16
    found, _ = cycles(90, 8, *products, *["MUFU.EX2 R3, R3"] * 64)
    assert (found["mma"], found["mufu"]) == (2048.0, 1024.0)
    # The same tile on A100, by 4 warps: each has 32 rows, 2 · 16 · 8 · 2 products of 16816.
    found, _ = cycles(80, 4, *["HMMA.16816.F32.BF16 R4, R8, R12, R4"] * 512)
    assert found["mma"] == 4 * 128 * 128 * 128 / 2048


def test_the_overlap_bound_is_the_fullest_pipe_and_no_overlap_takes_turns():
    each = {"mma": 1000.0, "shared": 800.0, "mufu": 500.0, "fp32": 100.0, "issue": 600.0}
    found = bound_of_products(each, "mma", useful=1000.0)
    assert (found.of, found.limited_by, found.overlap_percent) == ("mma", "mma", 100.0)
    assert found.no_overlap_percent == 62.5  # 1000 of 1000 + 600
    slow = bound_of_products(each | {"mufu": 1250.0}, "mma", useful=1000.0)
    assert (slow.limited_by, slow.overlap_percent) == ("mufu", 80.0)
    assert slow.no_overlap_percent == 44.44
    starved = bound_of_products(each | {"shared": 2000.0}, "mma", useful=1000.0)
    assert (starved.limited_by, starved.overlap_percent) == ("shared", 50.0)
    assert starved.no_overlap_percent == 38.46  # feeding lasts 2000, then 600


def test_padding_is_not_useful():
    each = {"mma": 1000.0, "shared": 0.0, "mufu": 250.0}
    found = bound_of_products(each, "mma", useful=625.0)  # d_h = 80 in a tile of 128
    assert (found.overlap_percent, found.no_overlap_percent) == (62.5, 50.0)


def test_a_tie_is_won_by_the_pipe_that_is_wanted_full():
    each = {"mufu": 512.0, "mma": 512.0, "shared": 0.0}
    assert bound_of_products(each, "mma", 512.0).limited_by == "mma"


def test_a_kernel_of_bytes_is_held_against_device_memory():
    each, rates = cycles(90, 4, *["LDG.E.128 R4, desc[UR4][R2.64]"] * 4)
    found = bound_of_bytes(each, 4 * 16 * 128, rates)
    needed = 4 * 16 * 128 / (3350 / (132 * 1.830))
    assert (found.of, found.limited_by, found.overlap_percent) == ("dram", "dram", 100.0)
    assert found.cycles["dram"] == pytest.approx(needed, abs=0.01)
    assert found.no_overlap_percent == pytest.approx(100 * needed / (needed + 4), abs=0.01)


def test_a_stub_without_products_has_no_bound():
    """What a compiler leaves of a tile beyond the limits would seem to be all but free."""
    lines = ("	.section	.text.stub", "        /*0000*/    EXIT ;")
    compiled = Compiled("stub", "\n".join(lines), {"REG": 4, "STACK": 0}, 81_928, 576, 0, warps=8)
    build = Build({"num_warps": 8}, {}, {}, products=((128, 128, 64),))
    found = profile_of(compiled, build, 100)
    assert found["bound"] is None and found["status"] == "error"
    assert found["reasons"] == ["a block takes 576 columns of tensor memory, 512 are the limit"]
    # In full precision float32 is multiplied without matrix units.
    without = replace(build, uses_matrix_units=False)
    assert profile_of(compiled, without, 100)["bound"] is not None

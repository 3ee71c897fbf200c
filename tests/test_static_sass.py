"""SASS is read as nvdisasm prints it: instructions, loops, kinds, bytes and products."""

import pytest

from suites.static.instructions import (
    KINDS,
    kind,
    lanes_of_fp32,
    mix,
    mma_flop,
    mma_speed,
    opcodes,
    shared_bytes,
    thread_bytes,
)
from suites.static.loops import find_loops, work_of
from suites.static.sass import Code, Instruction, parse
from suites.static.tensor_memory import products_in_code

# The end of a vector addition for sm_90, as printed by nvdisasm -c.
ADDITION = """
//--------------------- .text.add                 --------------------------
	.section	.text.add,"ax",@progbits
	.align	128
        .global         add
.text.add:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0120*/                   ISETP.GE.AND P0, PT, R0.reuse, UR6, PT ;
        /*0180*/              @!P0 LDG.E.128 R16, desc[UR4][R20.64] ;
        /*0190*/              @!UP0 ULDC.64 UR4, c[0x0][0x208] ;
        /*01d0*/                   FADD R12, R12, R16 ;
        /*0210*/              @!P0 STG.E.128 desc[UR4][R2.64], R12 ;
        /*0260*/               @P1 EXIT ;
.L_x_0:
        /*0290*/                   BRA `(.L_x_0);
        /*02a0*/                   NOP;
"""


def line(text: str) -> Instruction:
    (found,) = parse(f"        /*0000*/                   {text} ;").instructions
    return found


def code(*texts: str) -> Code:
    """Lines as given; those that start with a dot are labels."""
    printed = [t if t.startswith(".") else f"        /*0000*/   {t} ;" for t in texts]
    return parse("\n".join(printed))


def loop(label: str, *body: str) -> list[str]:
    return [f".L_{label}:", *body, f"@P0 BRA `(.L_{label})"]


MMA = "HMMA.16816.F32.BF16 R4, R8, R12, R4"
GMMA = "HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR4], R24"


def test_instructions_are_read_without_predicate_and_encoding():
    read = parse(ADDITION, "add")
    assert [i.opcode for i in read.instructions] == [
        "LDC", "ISETP", "LDG", "ULDC", "FADD", "STG", "EXIT", "BRA", "NOP",
    ]  # fmt: skip
    load = read.instructions[2]
    assert (load.name, load.modifiers) == ("LDG.E.128", ("E", "128"))
    assert load.operands == "R16, desc[UR4][R20.64]"
    assert read.loops == (), "a branch to itself is how code ends, not a loop"
    assert parse(ADDITION, "other").instructions == ()


def test_opcodes_that_begin_alike_are_not_confused():
    assert [i.opcode for i in code("LDS R1, [R2]", "LDSM.16.M88.4 R4, [R2]").instructions] == [
        "LDS", "LDSM",
    ]  # fmt: skip
    assert kind(line("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]")) == "async_copy"
    assert kind(line("LDG.E.128 R16, desc[UR4][R20.64]")) == "global"
    assert kind(line("LDGDEPBAR")) == "barrier"


def test_a_loop_is_from_a_label_to_a_branch_back():
    read = code(
        "MOV R1, R2", ".L_x_1:", "FADD R1, R1, R1", ".L_x_2:", "MUFU.EX2 R1, R1",
        "@P0 BRA `(.L_x_2)", "@P1 BRA `(.L_x_1)", "EXIT",
        ".L_x_3:", "SYNCS.PHASECHK P0, [R1]", "@!P0 BRA `(.L_x_3)", "BRA `(.L_x_1)",
    )  # fmt: skip
    # The block that waits lies behind EXIT: its branch back into the kernel makes no loop.
    assert [(r.start, r.stop) for r in read.loops] == [(1, 5), (2, 4), (6, 8)]
    innermost = read.innermost(lambda body: any(i.opcode == "MUFU" for i in body))
    assert innermost == [range(2, 4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", "mma"),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR24], R24", "mma"),
        ("UTCHMMA gdesc[UR10], gdesc[UR12], tmem[UR7], tmem[UR52], idesc[UR53], !UPT", "mma"),
        ("MUFU.EX2 R3, R3", "mufu"),
        ("FFMA2 R2, R4, R6, R8", "fp32"),
        ("FMNMX3 R4, R5, R6, R7, !PT", "alu"),
        ("IMAD.WIDE R20, R0, 0x4, R20", "alu"),
        ("FSEL R4, R4, -INF , P1", "select"),
        ("SEL R4, R4, R5, P1", "alu"),
        ("F2FP.BF16.F32.PACK_AB R4, R5, R6", "conversion"),
        ("SHFL.BFLY PT, R4, R5, 0x1, 0x1f", "shuffle"),
        ("STSM.16.M88.4 [R4], R8", "shared"),
        ("LDTM.x64 R4, tmem[UR4]", "tensor_memory"),
        ("UTMALDG.2D [UR8], [UR4], desc[UR6]", "async_copy"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier"),
        ("STL.64 [R1+0x8], R4", "spill"),
        ("UIADD3 UR4, UPT, UPT, UR4, 0x1, URZ", "uniform"),
        ("BRA.U UP0, `(.L_x_1)", "control"),
    ],
)
def test_every_instruction_has_a_kind(text, expected):
    assert kind(line(text)) == expected


def test_a_mix_has_every_kind_and_counts_each_instruction_once():
    read = code("FADD R1, R1, R1", "FSEL R1, R1, R2, P0", "FADD R2, R1, R1", "WHAT R1")
    counted = mix(read.instructions)
    assert tuple(counted) == KINDS and sum(counted.values()) == 4
    assert (counted["fp32"], counted["select"], counted["alu"]) == (2, 1, 1)
    assert opcodes(read.instructions) == {"FADD": 2, "FSEL": 1, "WHAT": 1}


def test_the_kinds_are_those_that_a_profile_may_have():
    from results.static_profile import INSTRUCTION_KINDS, PIPES
    from suites.static import bound

    assert KINDS == INSTRUCTION_KINDS and bound.PIPES == PIPES


def test_products_have_the_flop_of_their_shape():
    assert mma_flop(line("HMMA.16816.F32.BF16 R4, R8, R12, R4")) == 2 * 16 * 8 * 16
    assert mma_flop(line("HMMA.1688.F32.TF32 R4, R8, R12, R4")) == 2 * 16 * 8 * 8
    assert mma_flop(line("HGMMA.64x256x16.F32.BF16 R24, R88, gdesc[UR4], R24")) == 2 * 64 * 256 * 16
    assert (
        mma_flop(line("UTCHMMA gdesc[UR1], gdesc[UR2], tmem[UR3], tmem[UR4], idesc[UR5]")) is None
    )
    assert mma_speed(line("HMMA.1688.F32.TF32 R4, R8, R12, R4")) == 0.5
    assert mma_speed(line("HGMMA.64x128x16.F32 R24, R88, gdesc[UR4], R24")) == 1.0
    assert mma_speed(line("QGMMA.64x128x32.F32.E4M3.E4M3 R24, R88, gdesc[UR4], R24")) == 2.0


def test_bytes_are_those_of_the_width_printed():
    assert thread_bytes(line("STL.64 [R1+0x8], R4")) == 8
    assert thread_bytes(line("LDL.LU R4, [R1]")) == 4
    assert thread_bytes(line("LDG.E.128 R16, desc[UR4][R20.64]")) == 16
    assert thread_bytes(line("LDG.E.U16 R16, desc[UR4][R20.64]")) == 2
    # A matrix is 8 rows of 16 bytes.
    assert shared_bytes(line("LDSM.16.M88.4 R4, [R2]")) == 4 * 8 * 16
    assert shared_bytes(line("LDSM.16.M88 R4, [R2]")) == 8 * 16
    assert shared_bytes(line("LDS.128 R4, [R2]")) == 32 * 16
    assert shared_bytes(line("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]")) == 32 * 16
    assert shared_bytes(line("FADD R1, R1, R1")) == 0


def test_what_is_never_executed_moves_nothing():
    """As ptxas 13 lays loads, predicate "not true", ahead of asynchronous copies."""
    loads = loop("a", MMA, "@!PT LDS RZ, [RZ]", "@!UPT LDS RZ, [RZ]", "@!P0 LDS R4, [R2]")
    read = code(*loads, "EXIT")
    assert [i.is_idle for i in read.instructions] == [False, True, True, False, False, False]
    assert mix(read.instructions)["shared"] == 3, "it is issued all the same"
    assert work_of(read, find_loops(read, 1, 1).hot, {}).shared_bytes == 32 * 4


@pytest.mark.parametrize(
    ("mask", "address", "takes"),
    [
        ("0x80", "UR5+0x18010", 256),  # one address for the block
        ("0x80", "R162+UR6+0x18100", 256),  # one for a warp
        ("0x8f", "R162+UR6+0x18100", 512),  # another for each lane
        ("0x80", "R157+UR6", 512),
        ("0x80", "R16+UR6", 512),  # nobody has said what R16 is
        ("0x80", "R162+R157", 512),
    ],
)
def test_words_that_all_lanes_of_a_warp_share_take_half_the_time(mask, address, takes):
    read = code(
        "S2R R157, SR_TID.X", f"LOP3.LUT R162, R157.reuse, {mask}, RZ, 0xc0, !PT",
        *loop("a", MMA, f"LDS.128 R8, [{address}]", "STS.128 [UR5], R8"), "EXIT",
    )  # fmt: skip
    hot = find_loops(read, 2, 2).hot
    stored = 32 * 16
    assert work_of(read, hot, {}).shared_bytes == 2 * (takes + stored)


def test_a_mask_is_followed_to_the_last_write_ahead():
    masked = "LOP3.LUT R162, R157, 0x80, RZ, 0xc0, !PT"
    load = loop("a", MMA, "LDS.128 R8, [R162]")
    for body in (
        ("S2R R157, SR_TID.X", masked, "IMAD.SHL.U32 R162, R157, 0x8, RZ", *load),
        ("S2R R157, SR_TID.X", "IMAD.SHL.U32 R157, R157, 0x8, RZ", masked, *load),
        ("S2R R157, SR_CTAID.X", masked, *load),
    ):
        read = code(*body, "EXIT")
        assert work_of(read, find_loops(read, 1, 1).hot, {}).shared_bytes == 32 * 16, body


def test_a_warp_groups_product_reads_its_second_operand_and_a_shared_first():
    b, a = 128 * 16 * 2, 64 * 16 * 2
    assert shared_bytes(line("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR24], R24")) == a + b
    from_registers = "HGMMA.64x128x16.F32.BF16 R88, R180, gdesc[UR8].tnspB, R88, gsb0"
    assert shared_bytes(line(from_registers)) == b


def test_integer_products_are_made_where_float32_ones_are():
    assert lanes_of_fp32(line("IMAD.MOV.U32 R2, RZ, RZ, R3")) == 1
    assert lanes_of_fp32(line("FFMA2 R2, R4, R6, R8")) == 2
    assert lanes_of_fp32(line("IADD3 R2, R4, R6, R8")) == 0


def test_the_shape_of_a_product_in_tensor_memory_is_in_its_descriptor():
    read = code(
        "UMOV UR53, 0x8200490",
        "UTCHMMA gdesc[UR10], gdesc[UR12], tmem[UR7], tmem[UR52], idesc[UR53], !UPT",
        "UMOV UR43, 0x8110490",
        "UTCHMMA tmem[UR6], gdesc[UR40], tmem[UR8], tmem[UR42], idesc[UR43], UPT",
        "ULOP3.LUT UR43, UR43, 0x8110490",
        "UTCHMMA tmem[UR6], gdesc[UR40], tmem[UR8], tmem[UR42], idesc[UR43], UPT",
    )
    found = products_in_code(read)
    assert list(found) == [1, 3], "what is computed is not known"
    # 0x8200490: bits 24-28 are 8 (M = 128), bits 17-22 are 16 (N = 128), bits 7-9 are 1 (bf16).
    assert (found[1].M, found[1].N, found[1].K) == (128, 128, 16)
    assert (found[3].M, found[3].N, found[3].K) == (128, 64, 16)
    assert found[1].flop == 2 * 128 * 128 * 16
    assert found[1].shared_bytes == (128 + 128) * 16 * 2
    assert found[3].shared_bytes == 64 * 16 * 2, "its first operand lies in tensor memory"


def test_the_hot_loop_is_the_one_that_masks_nothing():
    masked = loop("m", MMA, MMA, MMA, "FSEL R1, R1, R2, P0", "FSEL R3, R3, R2, P0")
    plain = loop("p", MMA, MMA, MMA, "FADD R1, R1, R1")
    tiny = loop("t", MMA)
    for order in ((masked, plain, tiny), (plain, tiny, masked)):
        read = code("MOV R1, R2", *(line for part in order for line in part), "EXIT")
        found = find_loops(read, launched_warps=4, warps=4)
        hot = [i.opcode for i in read.body(found.hot.place)]
        assert hot == ["HMMA", "HMMA", "HMMA", "FADD", "BRA"]
        # A loop with less than half of the products is no candidate.
        assert len(found.others) == 1 and found.hot.warps == 4


def test_copies_of_one_loop_after_specialisation_are_one_loop():
    first, copy = loop("a", GMMA, "FADD R1, R1, R1"), loop("b", "FADD R9, R9, R1", GMMA)
    producer = loop("c", "UTMALDG.2D [UR8], [UR4], desc[UR6]")
    read = code(*first, *copy, *producer, "EXIT")
    found = find_loops(read, launched_warps=4, warps=12)
    assert (found.hot.warps, found.others) == (8, ())
    assert work_of(read, found.hot, {}).mma_flop == 2 * 2 * 64 * 128 * 16
    apart = find_loops(read, launched_warps=12, warps=12)
    assert len(apart.others) == 1, "without specialisation they are two"


def test_a_kernel_without_products_is_read_by_its_longest_loop_or_whole():
    read = code("MOV R1, R2", *loop("a", "LDG.E R1, desc[UR4][R2.64]", "FADD R1, R1, R1"), "EXIT")
    assert find_loops(read, 4, 4).hot.place == range(1, 4)
    whole = code("LDG.E.128 R16, desc[UR4][R20.64]", "STG.E.128 desc[UR4][R2.64], R12", "EXIT")
    found = find_loops(whole, 4, 4)
    assert found.hot.place == range(3)
    assert work_of(whole, found.hot, {}).global_bytes == 2 * 16 * 32 * 4


def test_work_is_of_all_warps_that_run_the_loop():
    read = code(*loop("a", MMA, MMA, "LDSM.16.M88.4 R4, [R2]"), "EXIT")
    found = work_of(read, find_loops(read, 8, 8).hot, {})
    assert found.mma_flop == 2 * 4096 * 8 and found.mma_flop_at_16_bit == 2 * 4096 * 8
    assert found.shared_bytes == 512 * 8
    tf32 = code(*loop("a", "HMMA.1688.F32.TF32 R4, R8, R12, R4"), "EXIT")
    found = work_of(tf32, find_loops(tf32, 4, 4).hot, {})
    assert (found.mma_flop, found.mma_flop_at_16_bit) == (2048 * 4, 2 * 2048 * 4)


def test_products_of_one_thread_are_counted_once_a_block():
    read = code(
        "UMOV UR5, 0x8200490",
        *loop("a", "UTCHMMA gdesc[UR1], gdesc[UR2], tmem[UR3], tmem[UR4], idesc[UR5], UPT"),
        "EXIT",
    )
    hot = find_loops(read, 8, 8).hot
    assert work_of(read, hot, products_in_code(read)).mma_flop == 2 * 128 * 128 * 16
    assert work_of(read, hot, {}).mma_flop is None, "an unknown shape is not guessed"

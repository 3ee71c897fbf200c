"""Compiled code as a profile: what is counted, held against limits, and of use."""

from __future__ import annotations

from dataclasses import replace

from impls.interface.static_kernel import Build
from suites.static import profile
from suites.static.compiler import Compiled


def compiled(sass: str, dynamic_shared_bytes: int = 4096) -> Compiled:
    return Compiled(
        name="f",
        sass=sass,
        usage={"REG": 64, "STACK": 0, "SHARED": 1024},
        dynamic_shared_bytes=dynamic_shared_bytes,
        tensor_memory_columns=0,
        scratch_bytes=0,
        warps=4,
    )


LOOP = """
.L_x_0:
        /*0010*/   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0020*/   STL.64 [R1+0x8], R4 ;
        /*0030*/   @P0 BRA `(.L_x_0) ;
        /*0040*/   LDL R4, [R1] ;
        /*0050*/   EXIT ;
"""
PRODUCTS = Build(
    {"num_warps": 4}, {}, {}, products=((32, 16, 16),), useful_flop=8192, exponentials=512
)


def test_a_profile_counts_spills_and_subtracts_what_the_system_reserves():
    found = profile.profile_of(compiled(LOOP), PRODUCTS, 90)
    resources = found["resources"]
    assert (resources["static_shared_bytes"], resources["dynamic_shared_bytes"]) == (0, 4096)
    assert (resources["spill_stores"], resources["spill_store_bytes"]) == (1, 8)
    assert (resources["spill_loads"], resources["spill_load_bytes"]) == (1, 4)
    assert (found["hot_loop"]["spill_stores"], found["hot_loop"]["spill_loads"]) == (1, 0)
    # 4 warps make 16 × 8 × 16 each: the declared tile of 32 × 16 × 16 once.
    assert found["hot_loop"]["iterations"] == 1.0
    assert found["expected"]["exponentials"] == 512 / 128
    assert found["bound"]["of"] == "mma" and found["bound"]["overlap_percent"] <= 50.0
    on_a100 = profile.profile_of(compiled(LOOP), PRODUCTS, 80)["resources"]
    assert on_a100["static_shared_bytes"] == 1024, "sm_80 counts nothing for the system"


def test_products_made_twice_are_no_iteration_and_of_no_use():
    # 2 products as written, 3 in the code: 24 cycles of the matrix units, 16 of them useful.
    line = next(line for line in LOOP.splitlines(keepends=True) if "HMMA" in line)
    sass = LOOP.replace(line, line * 3)
    twice = replace(PRODUCTS, products=((32, 16, 32),), useful_flop=None)
    found = profile.profile_of(compiled(sass), twice, 80)
    assert found["hot_loop"]["iterations"] == 1.0
    assert found["bound"]["cycles"]["mma"] == 24.0 and found["bound"]["limited_by"] == "mma"
    assert found["bound"]["overlap_percent"] == 66.67
    unrolled = profile.profile_of(compiled(LOOP.replace(line, line * 4)), twice, 80)
    assert unrolled["hot_loop"]["iterations"] == 2.0
    assert unrolled["bound"]["overlap_percent"] == 100.0


def test_code_beyond_the_hardware_is_an_error_with_its_figures():
    found = profile.profile_of(compiled(LOOP, dynamic_shared_bytes=240_000), PRODUCTS, 90)
    assert found["status"] == "error"
    assert found["reasons"] == ["a block takes 240000 bytes of shared memory, 232448 are the limit"]
    assert found["resources"]["occupancy"]["blocks"] == 0


def test_products_of_unknown_shape_leave_the_bound_unknown():
    sass = LOOP.replace(
        "HMMA.16816.F32.BF16 R4, R8, R12, R4",
        "UTCHMMA gdesc[UR1], gdesc[UR2], tmem[UR3], tmem[UR4], idesc[UR5], UPT",
    )
    assert profile.profile_of(compiled(sass), PRODUCTS, 100)["bound"] is None
    assert profile.profile_of(compiled(LOOP), PRODUCTS, 120)["bound"] is None, "no rates"

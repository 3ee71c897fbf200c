"""triton_decode compiled ahead of time for real GPUs on any CPU: what shipped blocks cost."""

import pytest

from impls.interface.static_kernel import Target
from impls.triton_flash.blocks_decode import decode_blocks_for
from impls.triton_flash.static_decode import decode_reduce, decode_split
from suites.static.compiler import compile_kernel, shipped_kernel
from suites.static.profile import profile_of

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def profile(kernel, capability, d_h, dtype="bf16", **variant):
    target = Target(capability, dtype, d_h, {}, variant)
    build = kernel.build(target)
    assert build is not None
    compiled = compile_kernel(shipped_kernel(kernel.kernel), build, dtype, capability)
    return profile_of(compiled, build, capability)


def split_profile(capability, d_h, rows, dtype="bf16", *, window=False):
    return profile(
        decode_split, capability, d_h, dtype, IS_CAUSAL=True, HAS_WINDOW=window, rows=rows
    )


def assert_fits(found, *, spills_nothing_at_all=True):
    assert found["status"] == "ok", found["reasons"]
    for loop in (found["hot_loop"], *found["other_loops"]):
        assert loop["spill_stores"] + loop["spill_loads"] == 0
    assert not spills_nothing_at_all or found["resources"]["spill_stores"] == 0


def test_groups_of_one_token_share_one_compilation():
    """H / H_kv is no constant of the kernel, and 16 rows are the least a tile has."""
    for capability in (80, 90, 100):
        assert len({decode_blocks_for(capability, 128, 2, n).BLOCK_ROWS for n in (1, 4, 8)}) == 1


def test_the_split_kernel_compiles_for_sm_90_without_spills():
    assert_fits(split_profile(90, 128, rows=8))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 64], ids=lambda rows: f"rows={rows}")
@pytest.mark.parametrize("d_h", [64, 128])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_device_memory_limits_it_and_nothing_spills(capability, d_h, rows):
    """What it fetches takes longest: no other pipe needs as much of an iteration's time."""
    found = split_profile(capability, d_h, rows)
    assert_fits(found)
    assert found["bound"]["limited_by"] == "dram"
    assert found["resources"]["occupancy"]["blocks"] >= (1 if rows > 16 else 2)


@pytest.mark.slow
@pytest.mark.parametrize("d_h", [40, 96, 192, 256])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_other_head_sizes_compile_without_spills(capability, d_h):
    assert_fits(split_profile(capability, d_h, 8))
    assert_fits(split_profile(capability, d_h, 64), spills_nothing_at_all=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "d_h"), [(80, 192), (80, 256), (90, 40), (90, 256), (100, 96), (100, 256)]
)
def test_float32_compiles_without_spills(capability, d_h):
    """Of each block of the table the largest size, and one in two chunks, padded or masked."""
    assert_fits(split_profile(capability, d_h, 8, "fp32"))


@pytest.mark.slow
def test_windows_float16_and_the_reduce_kernel_compile_for_sm_120():
    """For sm_90 `test_static_kernels.py` compiles every variant in float16."""
    assert_fits(split_profile(120, 128, 8, window=True))
    assert_fits(split_profile(120, 128, 8, "fp16"))
    assert_fits(split_profile(120, 256, 64, "fp16"), spills_nothing_at_all=False)
    reduce = profile(decode_reduce, 120, 256)
    assert reduce["status"] == "ok", reduce["reasons"]
    assert reduce["resources"]["spill_stores"] == 0

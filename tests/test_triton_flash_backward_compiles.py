"""The backward of triton_flash compiled ahead of time for real GPUs: what its tiles cost."""

from itertools import product

import pytest

from impls.interface.static_kernel import Target
from impls.triton_flash.static_backward import backward_keys, backward_queries, backward_rows
from results.static_baseline import read_baselines
from suites.static.compiler import compile_kernel, shipped_kernel
from suites.static.profile import profile_of

triton = pytest.importorskip("triton")

# (kernel, capability, d_h) → spilled registers stored and loaded in the loop through full tiles.
KNOWN_IN_THE_LOOP = {("keys", 90, 192): 3, ("keys", 90, 256): 1}
# The same → spilled registers stored anywhere, where that is more than MOST_STORES.
MANY_STORES = {("keys", 80, 40): 96}
MOST_STORES = 48
# Tiles are chosen, and what they cost accepted, with the Triton that has a baseline. With another
# they compile, fit and multiply as well, and may spill: 3.6.0 stores 276 and has 134 in the loop
# at worst, in float32 on sm_80 at d_h = 40.
IS_ACCEPTED = triton.__version__ in {one.triton for one in read_baselines()}
MOST_WITH_ANOTHER = 300
KERNELS = {"keys": backward_keys, "queries": backward_queries, "rows": backward_rows}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def profile(name, capability, d_h, dtype="bf16", **variant):
    kernel = KERNELS[name]
    build = kernel.build(Target(capability, dtype, d_h, {}, variant or kernel.variants[0]))
    assert build is not None
    compiled = compile_kernel(shipped_kernel(kernel.kernel), build, dtype, capability)
    found = profile_of(compiled, build, capability)
    assert found["status"] == "ok", found["reasons"]
    assert (found["hot_loop"]["mix"]["mma"] > 0) == (dtype != "fp32")
    return found


def spills_in(loop):
    return loop["spill_stores"] + loop["spill_loads"]


def assert_spills(found, in_the_loop=0, stores=MOST_STORES):
    """At most so many with the Triton of the baseline, and not without end with another."""
    most = in_the_loop if IS_ACCEPTED else MOST_WITH_ANOTHER
    assert spills_in(found["hot_loop"]) <= most
    assert found["resources"]["spill_stores"] <= (stores if IS_ACCEPTED else MOST_WITH_ANOTHER)


def test_the_kernel_of_keys_compiles_for_sm_90_without_spills_in_its_loops():
    found = profile("keys", 90, 128)
    assert [spills_in(loop) for loop in (found["hot_loop"], *found["other_loops"])] == [0, 0]
    assert found["resources"]["spill_stores"] <= MOST_STORES
    # 99 with Triton 3.7.1, as its baseline has it.
    assert found["bound"]["overlap_percent"] >= 82.0
    # 64 queries and 128 keys, warp groups of 64 rows: of 16 columns each, K·q and V·d_out take 8
    # each, and of 16 queries each, dv and dk 4 each.
    assert found["hot_loop"]["opcodes"]["HGMMA"] == 24
    assert found["hot_loop"]["mix"]["select"] == 0, "the loop through full tiles masks nothing"
    assert [loop["mix"]["select"] > 0 for loop in found["other_loops"]] == [True]


# As chunks of two powers of two each size is other code; padded on sm_100 80 is as 96, 160 as 192.
# 64 and 128 of 16 bits are what the gate compiles, with the Triton that has a baseline.
SIZES = {80: (40, 80, 96, 160, 192, 256), 90: (40, 80, 96, 160, 192, 256), 100: (40, 96, 192, 256)}
OF_THE_GATE = () if IS_ACCEPTED else ((100, 64), (100, 128))
IN_16_BITS = (*((arch, d_h) for arch, sizes in SIZES.items() for d_h in sizes), *OF_THE_GATE)
# float32 has one table of tiles and takes no matrix units: it is the longest to compile and much
# the same on every architecture, so that each size is compiled for one, of the two kernels for two.
IN_FLOAT32 = {
    "keys": ((80, 40), (90, 80), (100, 96), (80, 160), (90, 192), (100, 256)),
    "queries": ((90, 40), (100, 80), (80, 96), (90, 160), (100, 192), (80, 256)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "capability", "d_h", "dtype"),
    [
        *((name, *target, "bf16") for name, target in product(IN_FLOAT32, IN_16_BITS)),
        *((name, *target, "fp32") for name, targets in IN_FLOAT32.items() for target in targets),
    ],
)
def test_tiles_of_every_head_size_fit_and_keep_their_loop_clean(name, capability, d_h, dtype):
    found = profile(name, capability, d_h, dtype)
    known = KNOWN_IN_THE_LOOP.get((name, capability, d_h), 0) if dtype == "bf16" else 0
    most = MANY_STORES.get((name, capability, d_h), MOST_STORES) if dtype == "bf16" else MOST_STORES
    assert_spills(found, known, most)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("name", ["keys", "queries"])
def test_windows_compile_too_and_keep_their_loop_clean(name, capability):
    found = profile(name, capability, 128, IS_CAUSAL=True, HAS_WINDOW=True)
    assert_spills(found)

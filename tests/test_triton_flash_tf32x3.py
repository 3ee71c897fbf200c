import re

import pytest
import torch

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.interface.static_kernel import Target, static_kernels
from impls.triton_flash import triton_flash_tf32x3
from impls.triton_flash.blocks import blocks_for, reasons_against_tf32x3
from impls.triton_flash.blocks_backward import backward_blocks_for
from impls.triton_flash.precision import TF32X3
from suites.static.compiler import compile_kernel, shipped_kernel
from suites.static.profile import profile_of


def test_it_is_an_implementation_of_its_own_and_its_kernels_bear_its_name():
    found = implementations()["triton_flash_tf32x3"]
    assert "tf32x3" in found.summary
    assert found.capabilities.dtypes == ("float32",)
    assert all(name.endswith("_tf32x3") for name in found.runs)
    assert reasons_against(found, Problem(1, 9, 9, 1, 64), "cuda", {"backward", "lse"}) == []
    wide = Problem(1, 9, 9, 1, 96)
    assert reasons_against(found, wide, "cuda", {"lse"}) == []
    assert reasons_against(found, wide, "cuda", {"backward"}) == [
        "d_h=96 is above 64 in a backward"
    ]


@pytest.mark.parametrize("capability", [100, 103])
def test_where_sums_of_products_are_miscompiled_it_is_refused(capability, monkeypatch):
    assert "10821" in reasons_against_tf32x3(capability)[0]
    for find_blocks in (blocks_for, backward_blocks_for):
        with pytest.raises(Unsupported, match="10821"):
            find_blocks(capability, 64, 4, TF32X3)
    major, minor = divmod(capability, 10)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (major, minor))
    assert triton_flash_tf32x3.unavailable is not None
    assert "10821" in triton_flash_tf32x3.unavailable("cuda")[0]


def test_every_other_device_has_blocks():
    for capability in (80, 86, 89, 90, 120, 121):
        assert reasons_against_tf32x3(capability) == []
        for d in (1, 64, 65, 128):
            assert blocks_for(capability, d, 4, TF32X3).BLOCK_Q >= 16
        for d in (1, 64):
            assert backward_blocks_for(capability, d, 4, TF32X3).keys.BLOCK_KV >= 16


def compiled(name, capability, d_h, dtype="fp32", precision=TF32X3):
    """The compiled kernel and its profile."""
    kernel = static_kernels()[f"triton_flash_{name}"]
    variant = next(v for v in kernel.variants if v.get("PRECISION", "ieee") == precision)
    build = kernel.build(Target(capability, dtype, d_h, {}, variant))
    assert build is not None
    code = compile_kernel(shipped_kernel(kernel.kernel), build, dtype, capability)
    return code, profile_of(code, build, capability)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def test_the_compiled_kernel_says_how_it_multiplies(own_cache):
    """Its name is what a profile of a call shows, and so what a row has in `ran`."""
    code, found = compiled("forward", 90, 64)
    assert code.name == "triton_flash_forward_tf32x3"
    assert ".TF32" in code.sass
    assert found["status"] == "ok", found["reasons"]
    # Three products where one would be useful: a third of the peak is the most there is.
    assert 20.0 < found["bound"]["overlap_percent"] <= 33.4


@pytest.mark.slow
def test_full_precision_and_16_bits_are_named_too(own_cache):
    code, _ = compiled("forward", 90, 64, precision="ieee")
    assert code.name == "triton_flash_forward_ieee"
    assert not re.search(r"\bH(?:G)?MMA\.", code.sass), "matrix units"
    assert compiled("forward", 90, 64, "bf16", "ieee")[0].name == "triton_flash_forward"


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(
    ("name", "d_h"),
    [
        *(("forward", d_h) for d_h in (40, 64, 80, 96, 128)),
        *((f"backward_{name}", d_h) for name in ("keys", "queries") for d_h in (40, 64)),
    ],
)
def test_its_blocks_fit_and_spill_nothing_in_the_loop(name, capability, d_h, own_cache):
    _, found = compiled(name, capability, d_h)
    assert found["status"] == "ok", found["reasons"]
    assert found["hot_loop"]["spill_stores"] + found["hot_loop"]["spill_loads"] == 0
    assert found["hot_loop"]["mix"]["mma"] > 0

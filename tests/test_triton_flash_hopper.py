import math
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
import torch

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.triton_flash import choice, launch, launch_hopper, triton_flash, triton_flash_hopper
from impls.triton_flash.blocks import Blocks
from impls.triton_flash.blocks_hopper import reasons_against_device
from impls.triton_flash.launch_hopper import attend, reasons_against_tensors
from impls.triton_flash.traffic import descriptor_bytes, scratch_bytes
from tests.interpreted_process import run_interpreted
from tests.stand_in_hopper import hopper_stood_in_for

triton = pytest.importorskip("triton")


def tensors(*shape, dtype=torch.bfloat16):
    return [torch.ones(shape, dtype=dtype) for _ in "qkv"]


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with hopper_stood_in_for(monkeypatch) as stand_in:
        yield stand_in


def test_the_hopper_kernel_is_right_in_the_interpreter():
    assert run_interpreted("not slow", "interpreted_triton_flash_hopper.py") >= 90


@pytest.mark.slow
def test_the_hopper_kernel_is_right_in_the_interpreter_over_the_full_grid():
    assert run_interpreted("slow", "interpreted_triton_flash_hopper.py") >= 120


def resources(cubin, tmp_path):
    """Registers a thread and assembly of the one kernel in a cubin, from Triton's own tools."""
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin)

    def said(tool, option):
        return subprocess.run(
            [tools / tool, option, path], capture_output=True, text=True, check=True
        ).stdout

    return int(re.findall(r"\bREG:(\d+)", said("cuobjdump", "-res-usage"))[-1]), said(
        "nvdisasm", "-c"
    )


def scratch_of(launch):
    """Bytes of device memory that Triton asks the launcher for."""
    return launch.metadata.global_scratch_size * math.prod(launch.grid)


def assert_specialised(launch, tmp_path):
    """Three times the warps asked for, the registers they leave, and none of them spilled."""
    assert launch.metadata.num_warps == 12
    assert launch.metadata.shared <= 227 * 1024
    registers, assembly = resources(launch.cubin, tmp_path)
    assert registers <= 65536 // (12 * 32)  # of a multiprocessor: 170, in steps of 8 168
    assert re.search(r"\bHGMMA\b", assembly), "no matrix unit"
    assert re.search(r"\bUTMALDG\b", assembly), "no copy engine"
    assert not re.findall(r"\b(?:STL|LDL)\b", assembly), "spills"
    # An output row begins at a multiple of 16 bytes: nothing of it is stored by halves.
    assert re.search(r"\bSTG\.E\.128\b", assembly)
    assert not re.search(r"\bSTG\.E\.U16\b", assembly)


def test_a_launch_has_specialised_warps_and_scratch(stand_in, tmp_path):
    """The launcher's own call, compiled for real; the caller's Triton allocator stays its own."""
    from triton.runtime import _allocation

    def mine(size, alignment, stream):
        raise AssertionError("not mine to give")

    before = _allocation._allocator.get()
    triton.set_allocator(mine)
    try:
        attend(*tensors(2, 3, 200, 128), causal=True)
        attend(*tensors(1, 3, 384, 128), causal=True)
        assert _allocation._allocator.get() is mine
    finally:
        triton.set_allocator(before)
    first, second = stand_in.launches
    assert first.grid == (2 * 3 * 2, 1, 1)
    assert second.grid == (3 * 3, 1, 1)
    assert second.metadata is first.metadata, "sizes compiled anew"
    assert first.metadata.global_scratch_size == 3 * 128  # a tensor map each for q, k and v
    assert scratch_of(first) == descriptor_bytes(Problem(2, 200, 200, 3, 128)) == 12 * 3 * 128
    assert first.allocator is second.allocator is launch_hopper._scratch
    assert_specialised(first, tmp_path)


# A window masks the most: with it every size, d_h as one chunk, as two and padded, and of each
# kind one with fewer masks.
WINDOWED = {"causal": True, "window": 50}
FEWER_MASKS = ({"causal": True}, {}, {"T": 100})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d_h", "arguments"),
    [
        *((d_h, WINDOWED) for d_h in (8, 40, 64, 72, 80, 96, 128, 160, 192, 256)),
        *product((40, 96, 256), FEWER_MASKS),
    ],
    ids=str,
)
def test_every_shipped_block_has_specialised_warps(d_h, arguments, stand_in, tmp_path):
    """Masks, no mask, a tail, a window; d_h as one chunk, as two, and padded."""
    rest = dict(arguments)
    T = rest.pop("T", 128)
    attend(*tensors(1, 2, T, d_h), **rest)
    assert_specialised(stand_in.launches[0], tmp_path)
    assert scratch_of(stand_in.launches[0]) == descriptor_bytes(Problem(1, T, T, 2, d_h))


@pytest.mark.parametrize("capability", [None, 80, 90, 100])
def test_scratch_counts_the_tensor_maps_where_the_hopper_kernel_computes(capability, monkeypatch):
    monkeypatch.setattr(launch, "capability_of", lambda device: capability)
    maps = 2 * 3 * 2 * (3 * 128) if capability == 90 else 0
    rows = 2 * 3 * 200
    taken = Problem(2, 200, 200, 3, 128, dtype="bfloat16")
    assert scratch_bytes(taken, "forward") == 4 * rows + maps
    assert scratch_bytes(taken, "backward") == 12 * rows
    assert scratch_bytes(taken, "forward_backward") == 4 * rows + max(maps, 8 * rows)
    for left in (taken.with_(dtype="float32"), taken.with_(d_h=20)):
        assert scratch_bytes(left, "forward") == 4 * rows


@pytest.mark.slow
@pytest.mark.parametrize("d_h", [64, 128])
def test_float16_has_specialised_warps_too(d_h, stand_in, tmp_path):
    attend(*tensors(1, 2, 128, d_h, dtype=torch.float16), causal=True)
    assert_specialised(stand_in.launches[0], tmp_path)


def test_what_does_not_compile_is_refused_with_its_reason_once(stand_in, monkeypatch):
    uneven = Blocks(128, 100, 4, 2)
    with pytest.raises(Unsupported, match=r"does not compile: ValueError: .*power of 2"):
        attend(*tensors(1, 1, 64, 64), blocks=uneven)
    monkeypatch.setattr(launch_hopper, "_reasons_against_compiling", None)  # not asked again
    with pytest.raises(Unsupported, match="does not compile"):
        attend(*tensors(1, 1, 64, 64), blocks=uneven)
    assert stand_in.launches == []


def test_a_compiler_that_fails_is_told(stand_in, monkeypatch):
    """Triton's passes end in a RuntimeError of few words."""

    class Kernel:
        def warmup(self, *arguments, **constants):
            raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(launch_hopper, "_kernel", Kernel)
    with pytest.raises(Unsupported, match="does not compile: RuntimeError: PassManager::run"):
        attend(*tensors(1, 1, 64, 64))


def test_warps_that_are_not_specialised_are_refused(stand_in):
    with pytest.raises(Unsupported, match="compiles without specialised warps"):
        attend(*tensors(1, 1, 64, 64), blocks=Blocks(16, 16, 4, 2))
    assert stand_in.launches == []


def shifted(tensor, by):
    """The same values, `by` elements further from an aligned address."""
    room = torch.empty(tensor.numel() + by, dtype=tensor.dtype)
    return room[by:].view(tensor.shape).copy_(tensor)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (tensors(1, 2, 9, 64, dtype=torch.float32), "dtype float32 is not supported"),
        (tensors(1, 2, 9, 20), "d_h=20 is not a multiple of 8; d_v=20 is not a multiple of 8"),
        (tensors(1, 2, 9, 0), "d_h=0 is not a multiple of 8"),
        (tensors(1, 2, 9, 264), "d_h=264 is above 256"),
        (tensors(1, 2, 0, 64), "T_kv=0"),
        ([shifted(t, 4) for t in tensors(1, 2, 9, 64)], "q begins at no multiple of 16 bytes"),
        ([t[..., ::2] for t in tensors(1, 2, 9, 64)], "last-dim stride of k is 2: it must be 1"),
        ([t[..., :64] for t in tensors(1, 2, 9, 68)], "strides of v are 1224, 612, 68, 1"),
        ([t[:, :, :1].expand(1, 2, 9, 64) for t in tensors(1, 2, 9, 64)], "rows of q overlap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_descriptors_cannot_describe_is_refused_by_name(given, reason):
    assert reason in "; ".join(reasons_against_tensors(*given))


@pytest.mark.parametrize(
    "given",
    [
        tensors(2, 2, 9, 64),
        [t.transpose(1, 2) for t in tensors(2, 9, 2, 64)],
        torch.ones(2, 9, 3, 2, 64, dtype=torch.float16).permute(2, 0, 3, 1, 4).unbind(),
        [t.expand(2, 4, 9, 64) for t in tensors(2, 1, 9, 64)],
        [shifted(t, 8) for t in tensors(1, 2, 9, 40)],
        # One head of one batch is stepped along by rows alone: 612 is of no matter.
        [torch.as_strided(t, (1, 1, 9, 64), (1000, 612, 72, 1)) for t in tensors(1, 2, 9, 72)],
    ],
    ids=["bhtd", "bthd", "packed", "shared heads", "16 bytes on", "one head"],
)
def test_what_descriptors_can_describe_is_taken(given):
    assert reasons_against_tensors(*given) == []


def test_the_device_decides():
    assert reasons_against_device(90) == reasons_against_device(None) == []
    assert reasons_against_device(80) == ["compute capability 8.0 is not 9.x"]
    assert reasons_against_device(103) == ["compute capability 10.3 is not 9.x"]


@pytest.mark.parametrize("capability", [None, 80, 89, 90, 100, 120])
def test_triton_flash_takes_the_kernel_made_for_the_device(capability, monkeypatch):
    monkeypatch.setattr(choice.launch, "capability_of", lambda device: capability)
    monkeypatch.setattr(choice.launch, "attend", lambda *_, **arguments: ("portable", arguments))
    monkeypatch.setattr(choice.launch_hopper, "attend", lambda *_, **given: ("hopper", given))
    given = {"causal": True, "window": 3, "scale": 0.5}
    name, taken = choice.attend(*tensors(1, 1, 9, 64), **given, precision="tf32x3")
    assert name == ("hopper" if capability == 90 else "portable")
    # The Hopper kernel is for 16 bits, whose products know no other precision.
    assert taken == (given if name == "hopper" else {**given, "precision": "tf32x3"})


def test_what_the_hopper_kernel_refuses_the_portable_one_computes(stand_in, monkeypatch):
    monkeypatch.setattr(choice.launch, "capability_of", lambda device: 90)
    monkeypatch.setattr(choice.launch, "attend", lambda *_, **arguments: "portable")
    assert choice.attend(*tensors(1, 1, 9, 20)) == "portable"
    monkeypatch.setattr(launch_hopper, "hopper_blocks_for", lambda *_: Blocks(128, 100, 4, 2))
    assert choice.attend(*tensors(1, 1, 9, 64)) == "portable"


def test_a_failed_launch_is_no_reason_to_fall_back(monkeypatch):
    def broken(*tensors, **arguments):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(choice.launch, "capability_of", lambda device: 90)
    monkeypatch.setattr(choice.launch_hopper, "attend", broken)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        choice.attend(*tensors(1, 1, 9, 64))


def test_the_pinned_implementation_never_falls_back(monkeypatch):
    assert implementations()["triton_flash_hopper"].runs == ("triton_flash_forward_hopper",)
    assert "triton_flash_forward_hopper" in triton_flash.runs
    problem = Problem(B=1, T_q=9, T_kv=9, H=1, d_h=20)
    assert reasons_against(triton_flash_hopper, problem, "cuda", {"backward", "mask"}) == [
        "dtype float32 is not supported (only bfloat16, float16)",
        "d_h=20 is not a multiple of 8",
        "backward is not supported",
        "mask is not supported",
    ]
    with pytest.raises(Unsupported, match="python -m impls check triton_flash_hopper"):
        triton_flash_hopper.forward(*tensors(1, 1, 9, 64))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (8, 0))
    assert triton_flash_hopper.unavailable is not None
    assert triton_flash_hopper.unavailable("cuda") == ["compute capability 8.0 is not 9.x"]

import subprocess
import sys

import pytest
import torch

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.problem import Problem
from impls.triton_flash import triton_flash, unavailable
from impls.triton_flash.blocks import blocks_for, chunks, splits_heads
from impls.triton_flash.interpreter import _reasons_against_versions, guarded
from impls.triton_flash.launch import grid
from tests.interpreted_process import ROOT, run_interpreted


def test_triton_flash_is_right_in_the_interpreter():
    files = ("interpreted_triton_flash.py", "interpreted_triton_flash_tf32x3.py")
    assert run_interpreted("not slow", *files) >= 145


@pytest.mark.slow
def test_triton_flash_is_right_in_the_interpreter_over_the_full_grid():
    assert run_interpreted("slow", "interpreted_triton_flash.py") >= 190


@pytest.mark.parametrize(("B", "H"), [(65536, 1), (10923, 6)])
def test_the_big_axis_of_the_grid_is_x(B, H):
    """Case S07, pytorch#142228: beyond 65535 in y or z a launch fails, or leaves stale memory."""
    assert grid(B, H, 16, 128) == (B * H,)
    assert grid(B, H, 129, 128) == (2 * B * H,)


def test_a_grid_beyond_x_is_refused():
    with pytest.raises(Unsupported, match="2147483648"):
        grid(2**20, 2**4, 2**14, 128)
    large = Problem(B=2**20, H=2**6, T_q=2**14, T_kv=1, d_h=64)
    assert "B·H·T_q" in " ".join(reasons_against(triton_flash, large, "cuda"))


def test_a_head_size_is_two_powers_of_two_or_padded():
    split = {d: chunks(d, True) for d in (1, 16, 40, 48, 64, 72, 80, 96, 112, 160, 192, 256)}
    assert split == {
        1: (16, 0), 16: (16, 0), 40: (64, 0), 48: (32, 16), 64: (64, 0), 72: (128, 0),
        80: (64, 16), 96: (64, 32), 112: (128, 0), 160: (128, 32), 192: (128, 64), 256: (256, 0),
    }  # fmt: skip
    for d in range(257):
        a, b = chunks(d, True)
        assert d <= a + b <= max(16, 2 * d)
        assert chunks(d, False) == (max(16, 1 << (d - 1).bit_length() if d else 1), 0)


def test_every_device_has_blocks_and_tensor_memory_pads():
    for capability in (80, 86, 89, 90, 100, 103, 110, 120, 121):
        for d in (1, 64, 65, 128, 129, 256):
            for element_bytes in (2, 4):
                assert blocks_for(capability, d, element_bytes).BLOCK_Q >= 32
    assert [splits_heads(c) for c in (80, 90, 100, 103, 110, 120)] == [True] * 2 + [False] * 3 + [
        True
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"mask": torch.ones(4, 4, dtype=torch.bool)}, "mask is not supported"),
        ({"softcap": 30.0}, "softcap is not supported"),
        ({}, "python -m impls check triton_flash"),
    ],
    ids=["mask", "softcap", "cpu"],
)
def test_what_it_cannot_do_is_refused_by_name(arguments, reason):
    q = torch.randn(1, 1, 4, 16)
    with pytest.raises(Unsupported, match=reason):
        triton_flash.forward(q, q, q, **arguments)


def test_a_cpu_is_told_where_the_kernel_is_proven():
    assert "interpreter" in " ".join(unavailable("cpu"))
    assert triton_flash.capabilities.devices == ("cuda",)
    if not torch.cuda.is_available():
        assert unavailable("cuda")


def test_an_old_triton_names_the_numpy_it_needs():
    """Triton 3.6 cannot interpret a loop over a range of tensors with numpy 2.4."""
    assert "numpy<2.4" in _reasons_against_versions("3.6.0", "2.4.6")[0]
    assert _reasons_against_versions("3.6.0", "2.3.5") == []
    assert _reasons_against_versions("3.7.1", "2.4.6") == []
    assert _reasons_against_versions("3.10.0+git1", "2.10.0") == []


def test_importing_triton_flash_imports_neither_triton_nor_the_kernel():
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import impls.triton_flash as package\n"
        "ours = ('triton.', 'impls.triton_flash.')\n"
        "print(*sorted(m for m in sys.modules if m.startswith(ours)))\n"
        "print(package.unavailable('cuda')[0], package.unavailable('cpu'), sep=', ')\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules, reason = child.stdout.splitlines()
    ours = (
        *("calls", "implementation_decode", "implementation_hopper", "implementation_tf32x3"),
        *("interpreter", "precision", "presence", "traffic"),
    )
    assert modules.split() == [f"impls.triton_flash.{name}" for name in ours]
    assert reason == "triton is not installed, ['triton is not installed']"


def test_guarded_values_lie_amid_nan():
    values = torch.arange(24.0).reshape(1, 2, 3, 4)
    inside = guarded(values, rows=2, columns=1)
    assert torch.equal(inside, values)
    assert inside.stride(3) == 1
    room = torch.as_strided(inside, (2, 7, 6), (42, 6, 1), 0)
    assert room.isnan().sum() == 2 * 7 * 6 - 24

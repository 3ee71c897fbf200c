import pytest
import torch

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.cost import compulsory_bytes
from impls.interface.problem import PASSES, Problem
from impls.triton_flash import triton_flash
from impls.triton_flash.blocks_backward import ROWS, SMALLEST_BLOCK, backward_blocks_for
from impls.triton_flash.traffic import algorithmic_bytes, scratch_bytes
from tests.interpreted_process import run_interpreted

CASES = "interpreted_triton_flash_backward.py"


def test_the_backward_is_right_in_the_interpreter():
    assert run_interpreted("not slow", CASES) >= 74


@pytest.mark.slow
def test_the_backward_is_right_in_the_interpreter_over_the_full_grid():
    assert run_interpreted("slow", CASES) >= 125


def test_every_pass_is_declared_and_names_the_kernels_of_its_own():
    assert triton_flash.capabilities.passes == PASSES
    assert reasons_against(triton_flash, Problem(1, 4, 4, 1, 16), "cuda", {"backward"}) == []
    for kernel in ("rows", "keys", "queries"):
        assert f"triton_flash_backward_{kernel}" in triton_flash.runs


def test_a_cpu_is_refused_with_a_gradient_as_without():
    q = torch.randn(1, 1, 4, 16, requires_grad=True)
    with pytest.raises(Unsupported, match="python -m impls check triton_flash"):
        triton_flash.forward(q, q, q)


@pytest.mark.parametrize(("T_q", "T_kv"), [(2**14, 1), (1, 2**14)])
def test_a_grid_beyond_x_is_refused_for_queries_and_for_keys(T_q, T_kv):
    large = Problem(B=2**20, H=2**6, T_q=T_q, T_kv=T_kv, d_h=64)
    name = "B·H·T_q" if T_q > 1 else "B·H_kv·T_kv"
    assert any(
        r.startswith(name) for r in reasons_against(triton_flash, large, "cuda", {"backward"})
    )
    is_refused_forward = bool(reasons_against(triton_flash, large, "cuda"))
    assert is_refused_forward == (T_q > 1)


def test_every_device_has_backward_blocks():
    for capability in (80, 86, 89, 90, 100, 103, 110, 120, 121):
        for d in (1, 64, 65, 128, 129, 192, 193, 256):
            for element_bytes in (2, 4):
                blocks = backward_blocks_for(capability, d, element_bytes)
                assert blocks.keys.BLOCK_KV >= SMALLEST_BLOCK
                assert blocks.queries.BLOCK_Q >= SMALLEST_BLOCK
    assert ROWS.BLOCK_Q >= SMALLEST_BLOCK


def test_bytes_are_those_that_three_kernels_read_and_write():
    """Counted kernel by kernel, tensor by tensor."""
    p = Problem(B=2, T_q=5, T_kv=7, H=6, H_kv=2, d_h=16, d_v=8, dtype="bfloat16", causal=True)
    of_row = 2 * 6 * 5
    q, out, k, v = of_row * 16 * 2, of_row * 8 * 2, 2 * 2 * 7 * 16 * 2, 2 * 2 * 7 * 8 * 2
    number = of_row * 4
    rows = (out + out + number) + (2 * number)
    keys = (q + k + v + out + 2 * number) + (k + v)
    queries = (q + k + v + out + 2 * number) + q
    assert algorithmic_bytes(p, "backward") == rows + keys + queries
    assert algorithmic_bytes(p, "forward") == q + k + v + out == compulsory_bytes(p, "forward")
    both = q + k + v + out + number + rows + keys + queries
    assert algorithmic_bytes(p, "forward_backward") == both
    assert [scratch_bytes(p, name) for name in PASSES] == [number, 3 * number, 3 * number]

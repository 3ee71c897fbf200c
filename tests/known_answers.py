"""Small attention whose answers were computed elsewhere, for kernels run in the interpreter."""

import math

import pytest
import torch

from impls.interface.attention import attend

LSE_OF_NINE_KEYS = 2.604141  # in base 2: 3.756982


def sine(*shape, frequency):
    """The deterministic inputs whose answers are known from elsewhere: sin(f·n + 0.3)."""
    n = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(frequency * n + 0.3).float().reshape(shape)


def known(implementation, T_q, T_kv, H=1, H_kv=1, **arguments):
    """(out, lse) of the implementation for these inputs, d_h = 4."""
    q = sine(1, H, T_q, 4, frequency=0.7)
    k, v = (sine(1, H_kv, T_kv, 4, frequency=f) for f in (0.37, 0.91))
    out, lse = attend(implementation, q, k, v, with_lse=True, **arguments)
    assert lse is not None
    return out, lse


def assert_causal_is_bottom_right(implementation):
    """Two queries of five keys."""
    out, lse = known(implementation, 2, 5, causal=True)
    rows = [[-0.133778, 0.087238, 0.240861, 0.208417], [0.054585, 0.142539, 0.12038, 0.005227]]
    assert out[0, 0].tolist() == [pytest.approx(row, abs=2e-6) for row in rows]
    assert lse[0, 0].tolist() == pytest.approx([1.799711, 1.806955], abs=2e-6)


def assert_kv_heads_are_interleaved(implementation):
    """Four query heads over two kv heads: head 1 reads kv head 0."""
    out, _ = known(implementation, 3, 3, H=4, H_kv=2)
    rows = [
        [0.364395, 0.291859, -0.00614, -0.299396],
        [0.20651, 0.421558, 0.310948, -0.039871],
        [-0.01322, -0.025185, -0.017695, 0.003465],
    ]
    assert out[0, 1].tolist() == [pytest.approx(row, abs=2e-6) for row in rows]

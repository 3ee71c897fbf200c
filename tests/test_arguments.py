"""What `attend` refuses before any implementation sees it, and what it takes as it is."""

from __future__ import annotations

import math

import pytest
import torch

from impls.interface.attention import attend
from tests.brute_force import agrees, brute_force
from tests.eager import every, random_qkv

ONES = torch.ones(4, 4)


@every
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.uint8, torch.int8, torch.complex64]
)
def test_a_mask_that_is_neither_bool_nor_floating_is_refused_by_its_dtype(implementation, dtype):
    """Case M06, pytorch#99012: each path of torch takes masks of other dtypes."""
    q, k, v = random_qkv(1, 1, 4, 4, 8, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=rf"a mask of {dtype} has no meaning: give bool"):
        attend(implementation, q, k, v, mask=ONES.to(dtype))


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_floating_mask_of_any_width_is_added_and_its_infinities_stay(implementation, dtype):
    q, k, v = random_qkv(1, 1, 4, 4, 8, dtype=torch.bfloat16)
    mask = torch.tensor([[0.5, -math.inf, 2, -1.5]], dtype=dtype).repeat(4, 1)
    mask[1] = -math.inf
    out, _ = attend(implementation, q, k, v, mask=mask)
    expected, _ = brute_force(q, k, v, mask=mask)
    assert out.dtype == torch.bfloat16 and (out[0, 0, 1] == 0).all()
    torch.testing.assert_close(out.double(), expected, atol=2e-2, rtol=0)


@every
@pytest.mark.parametrize(
    ("heads", "told"),
    [
        ((6, 4, 4), "H=6 is not a multiple of H_kv=4"),
        ((4, 0, 0), "H=4 is not a multiple of H_kv=0"),
        ((2, 4, 4), "H=2 is not a multiple of H_kv=4"),
        ((4, 2, 1), "k has 2 heads and v has 1"),
    ],
)
def test_head_counts_that_do_not_fit_are_refused_with_both_numbers(implementation, heads, told):
    """Case G03, flash-sparse-attention PR#200."""
    q, k, v = (torch.zeros(1, H, 3, 8) for H in heads)
    with pytest.raises(ValueError, match=told):
        attend(implementation, q, k, v)


@every
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scale": math.inf}, "scale=inf is not finite"),
        ({"scale": math.nan}, "scale=nan is not finite"),
        ({"softcap": 0.0}, "softcap=0.0: give a finite cap above 0, or None"),
        ({"softcap": -2.0}, "softcap=-2.0"),
        ({"softcap": math.nan}, "softcap=nan"),
        ({"causal": True, "window": 0}, "window=0: give 1 or more keys"),
        ({"causal": True, "window": 1.5}, "window=1.5"),
        ({"causal": True, "window": True}, "window=True"),
        ({"window": 2}, "window=2: give 1 or more keys, together with causal"),
        ({"causal": True, "mask": ONES.bool()}, "mask together with causal"),
        ({"mask": [[True]]}, "mask is a list: it must be a tensor"),
        ({"mask": ONES.to("meta")}, "q is on cpu and mask on meta"),
        ({"mask": torch.ones(3, 4)}, r"mask \(3, 4\) does not broadcast"),
        ({"mask": torch.ones(1, 1, 1, 1, 4)}, r"mask \(1, 1, 1, 1, 4\) does not broadcast"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arguments_without_meaning_are_refused_alike_by_all(implementation, given, told):
    with pytest.raises(ValueError, match=told):
        attend(implementation, *random_qkv(1, 1, 4, 4, 8), **given)


@every
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda q, k, v: (q[0], k, v), "q has 3 dimensions"),
        (lambda q, k, v: (q, k[None], v), "k has 5 dimensions"),
        (lambda q, k, v: (q.long(), k.long(), v.long()), "attention is of floating numbers"),
        (lambda q, k, v: (q, k.half(), v), "give them one"),
        (lambda q, k, v: (q, k.to("meta"), v), "q is on cpu and k on meta"),
        (lambda q, k, v: (q, k[:, :, :3], v), "k has T_kv=3 and v has T_kv=4"),
        (lambda q, k, v: (q[..., :4], k, v), "q has d_h=4 and k has d_h=8"),
        (lambda q, k, v: (q, k.expand(2, -1, -1, -1), v), "B differs"),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused_alike_by_all(implementation, change, told):
    with pytest.raises(ValueError, match=told):
        attend(implementation, *change(*random_qkv(1, 1, 4, 4, 8)))


@every
@pytest.mark.parametrize("may", [True, False])
def test_a_mask_of_one_value_holds_for_all(implementation, may):
    agrees(implementation, *random_qkv(2, 2, 3, 5, 8), mask=torch.tensor(may), with_grad=may)


@every
@pytest.mark.parametrize("scale", [-0.3, 3.0, 1e-30])
def test_any_finite_scale_is_taken_as_it_is(implementation, scale):
    agrees(implementation, *random_qkv(1, 2, 5, 9, 8), scale=scale)


@every
@pytest.mark.parametrize("which", ["queries", "heads", "keys"])
def test_tensors_expanded_over_one_storage_are_read_right(implementation, which):
    q, k, v = random_qkv(1, 4, 5, 9, 8)
    q = q[:, :, :1].expand(1, 4, 5, 8) if which == "queries" else q
    k = k[:, :1].expand(1, 4, 9, 8) if which == "heads" else k
    v = v[:, :, :1].expand(1, 4, 9, 8) if which == "keys" else v
    agrees(implementation, q, k, v, causal=True, with_grad=False)


@every
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_float16_scores_beyond_its_range_survive_a_mask(implementation, kind):
    q, k, v = random_qkv(1, 2, 5, 9, 64, dtype=torch.float16)
    q, k = q * 60, k * 60
    assert (q @ k.mT).isinf().any()
    mask = torch.rand(5, 9, generator=torch.Generator().manual_seed(5)) > 0.3
    bias = mask if kind == "bool" else torch.zeros(5, 9).masked_fill(~mask, -math.inf)
    out, _ = attend(implementation, q, k, v, mask=bias)
    expected, _ = brute_force(q, k, v, mask=bias)
    torch.testing.assert_close(out.double(), expected, atol=3e-3, rtol=0)

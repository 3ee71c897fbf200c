"""Rotary embedding against turning by complex numbers, in float64."""

from __future__ import annotations

import cmath

import pytest
import torch

from impls.layer.rotary import Rotary
from tests.layers import tokens


def turned_by_hand(x, start, base):
    """Pair i of the row at position p, as a complex number, times e^(i·p·base^(−2i/d))."""
    out = torch.empty_like(x)
    T, d = x.shape[-2:]
    rows, turned = x.reshape(-1, T, d), out.view(-1, T, d)
    for r in range(rows.shape[0]):
        for t in range(T):
            for i in range(d // 2):
                number = complex(float(rows[r, t, i]), float(rows[r, t, i + d // 2]))
                number *= cmath.exp(1j * (start + t) * base ** (-2 * i / d))
                turned[r, t, i], turned[r, t, i + d // 2] = number.real, number.imag
    return out


@pytest.mark.parametrize("start", [0, 1, 37])
@pytest.mark.parametrize(("d", "base"), [(2, 10000.0), (6, 10000.0), (10, 500000.0), (4, 3.0)])
def test_pairs_are_turned_by_their_position(d, base, start):
    x = tokens(2, 3, 5, d)
    expected = turned_by_hand(x, start, base)
    torch.testing.assert_close(Rotary(d, base)(x, start), expected, atol=1e-13, rtol=0)


def test_position_0_stays_and_lengths_are_kept():
    x = tokens(1, 4, 9, 8)
    found = Rotary(8)(x)
    assert torch.equal(found[:, :, 0], x[:, :, 0])
    torch.testing.assert_close(found.norm(dim=-1), x.norm(dim=-1), atol=1e-13, rtol=0)


def test_scores_depend_on_the_distance_alone():
    """What it is for: q at position m meets k at position n as if at m − n (RoFormer, eq. 11)."""
    q, k = tokens(1, 1, 6), tokens(1, 1, 6, seed=1)
    rotary = Rotary(6, 50.0)
    near = (rotary(q, 5) * rotary(k, 2)).sum()
    far = (rotary(q, 1005) * rotary(k, 1002)).sum()
    other = (rotary(q, 5) * rotary(k, 3)).sum()
    torch.testing.assert_close(near, far, atol=1e-12, rtol=0)
    assert (near - other).abs() > 1e-3


def test_neighbouring_pairs_are_the_same_in_another_order():
    """The paper's pairs (2i, 2i + 1) are these halves after reordering the elements of q and k."""
    d, base = 8, 100.0
    q, k = tokens(1, 7, d), tokens(1, 7, d, seed=1)
    order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])

    def paired(x):
        angle = torch.arange(7.0).double()[:, None] * base ** -(torch.arange(0, d, 2) / d).double()
        number = torch.view_as_complex(x.unflatten(-1, (d // 2, 2))) * torch.exp(1j * angle)
        return torch.view_as_real(number).flatten(-2)

    rotary = Rotary(d, base)
    halves = rotary(q[..., order]) @ rotary(k[..., order]).mT
    torch.testing.assert_close(halves, paired(q) @ paired(k).mT, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_far_positions_are_rounded_once(dtype):
    """Angles of position 100000 in float32 are off by 0.004, 16-bit products by two roundings."""
    x = tokens(1, 8, 3, 8).to(dtype)
    expected = turned_by_hand(x.double(), 100_000, 10000.0)
    found = Rotary(8)(x, 100_000)
    assert found.dtype == dtype
    limit = 0.51 * torch.finfo(dtype).eps * expected.abs() + 1e-6
    assert ((found.double() - expected).abs() <= limit).all()


def test_the_table_grows_without_changing_what_was():
    rotary, x = Rotary(4), tokens(1, 20, 4)
    for T in (1, 2, 3, 4, 5, 8, 9, 20):
        torch.testing.assert_close(rotary(x[:, :T]), Rotary(4)(x)[:, :T], atol=0.0, rtol=0.0)
    assert torch.equal(rotary(x[:, 5:9], 5), rotary(x)[:, 5:9])


def test_no_tokens_are_turned_into_none():
    assert Rotary(4)(tokens(1, 2, 0, 4)).shape == (1, 2, 0, 4)


def test_what_has_no_pairs_is_refused():
    with pytest.raises(ValueError, match="d=7 must be even"):
        Rotary(7)
    with pytest.raises(ValueError, match="base=0"):
        Rotary(8, 0.0)
    with pytest.raises(ValueError, match=r"d=8 was given rows of d=6"):
        Rotary(8)(tokens(1, 2, 6))

"""The caches keep what is appended, count their bytes and refuse what does not fit."""

from __future__ import annotations

import pytest
import torch

from impls.interface.check import poisoned_empty
from impls.layer.kv_cache import KVCache, LatentCache
from tests.layers import tokens


def kv_cache(T_max=5, dtype=torch.float32):
    return KVCache(B=2, H_kv=3, T_max=T_max, d_h=4, dtype=dtype)


def test_what_is_appended_is_kept_in_order():
    k, v = tokens(2, 3, 5, 4).float(), tokens(2, 3, 5, 4, seed=1).float()
    with poisoned_empty():
        cache = kv_cache(T_max=7)
    assert cache.length == 0 and cache.k.shape == (2, 3, 0, 4)
    for start, stop in ((0, 2), (2, 2), (2, 3), (3, 5)):
        cache.append(k[:, :, start:stop], v[:, :, start:stop])
        assert cache.length == stop
        assert torch.equal(cache.k, k[:, :, :stop]) and torch.equal(cache.v, v[:, :, :stop])


def test_nothing_is_copied_on_reading():
    cache = kv_cache()
    cache.append(*torch.zeros(2, 2, 3, 1, 4))
    before = cache.k.data_ptr()
    cache.append(*torch.ones(2, 2, 3, 2, 4))
    assert cache.k.data_ptr() == before


def test_bytes_are_all_that_is_allocated():
    for dtype, element in ((torch.float32, 4), (torch.bfloat16, 2), (torch.float64, 8)):
        cache = kv_cache(dtype=dtype)
        assert cache.bytes == 2 * 2 * 3 * 5 * 4 * element
        assert cache.bytes_per_token == 2 * 2 * 3 * 4 * element
    latent = LatentCache(B=2, T_max=5, d_c=12, d_R=4, dtype=torch.float16)
    assert (latent.bytes, latent.bytes_per_token) == (2 * 5 * 16 * 2, 2 * 16 * 2)


def test_overflow_is_refused_with_the_numbers_and_changes_nothing():
    cache = kv_cache(T_max=5)
    k = torch.ones(2, 3, 4, 4)
    cache.append(k, k)
    with pytest.raises(ValueError, match=r"T_max=5 tokens and has 4: 2 more do not fit"):
        cache.append(k[:, :, :2] * 7, k[:, :, :2])
    assert cache.length == 4 and torch.equal(cache.k, k)
    cache.append(k[:, :, :1], k[:, :, :1])
    assert cache.length == 5
    latent = LatentCache(B=1, T_max=1, d_c=2, d_R=2, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"T_max=1 tokens and has 0: 2 more do not fit"):
        latent.append(torch.ones(1, 1, 2, 4))


def test_a_step_can_be_taken_again():
    cache = kv_cache()
    k = tokens(2, 3, 5, 4).float()
    cache.append(k, k)
    cache.truncate(3)
    assert cache.length == 3 and torch.equal(cache.k, k[:, :, :3])
    cache.append(-k[:, :, :1], k[:, :, :1])
    assert torch.equal(cache.k[:, :, 3], -k[:, :, 0])
    with pytest.raises(ValueError, match="truncate to 5: the cache has 4"):
        cache.truncate(5)
    with pytest.raises(ValueError, match="-1"):
        cache.truncate(-1)


@pytest.mark.parametrize(
    ("k", "words"),
    [
        (torch.ones(2, 2, 1, 4), r"\(2, 2, 1, 4\) does not fit .*\(2, 3, up to 5, 4\)"),
        (torch.ones(1, 3, 1, 4), r"\(1, 3, 1, 4\) does not fit"),
        (torch.ones(2, 3, 1, 6), r"\(2, 3, 1, 6\) does not fit"),
        (torch.ones(2, 3, 4), r"\(2, 3, 4\) does not fit"),
        (torch.ones(2, 3, 1, 4).double(), r"float64 .* the cache torch.float32"),
        (torch.ones(2, 3, 1, 4).requires_grad_(), "no_grad"),
    ],
)
def test_what_does_not_fit_is_refused(k, words):
    cache = kv_cache()
    with pytest.raises(ValueError, match=words):
        cache.append(k, k)
    assert cache.length == 0


def test_keys_and_values_must_be_of_the_same_tokens():
    with pytest.raises(ValueError, match="differ"):
        kv_cache().append(torch.ones(2, 3, 2, 4), torch.ones(2, 3, 1, 4))


def test_a_cache_of_no_tokens_is_refused():
    with pytest.raises(ValueError, match="T_max=0"):
        kv_cache(T_max=0)

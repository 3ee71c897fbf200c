"""A stand-in for FlashInfer's batch wrappers: planned, then run, over tokens in a row or pages."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from tests.foreign_libraries import Habits, attention, check_tensors, install, visible

PLANNED = (
    *("causal", "pos_encoding_mode", "window_left", "logits_soft_cap", "sm_scale"),
    *("q_data_type", "kv_data_type"),
)


def flashinfer(monkeypatch: pytest.MonkeyPatch) -> Habits:
    """`flashinfer` 0.7.2: (tokens, H, d), LSE of base 2, dtypes and lengths as planned."""
    habits = Habits()

    class Wrapper:
        def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False):
            assert kv_layout == "NHD" and not use_cuda_graph
            assert float_workspace_buffer.dtype == torch.uint8
            assert not float_workspace_buffer[:64].any(), "must be 0 for its first use"
            self.workspace, self.plans = float_workspace_buffer, 0
            # Of a plan over pages.
            self.indptr, self.page_size = [0], 0
            self.indices = self.last_page_len = torch.empty(0)

        def planned(self, *, sizes, sm_scale, causal, window_left, logits_soft_cap, **given):
            assert (given.pop("pos_encoding_mode"), given.pop("rope_scale", None)) == ("NONE", None)
            self.H, self.H_kv, self.d_h = sizes
            self.scale = self.d_h**-0.5 if sm_scale is None else sm_scale
            self.left = None if window_left < 0 else window_left + habits.more_window
            self.causal, self.softcap = causal, logits_soft_cap or 0.0
            self.dtypes = given
            self.plans += 1
            habits.told.append({"planned": self.plans})

        def computed(self, q, sequences, return_lse):
            """Each (q, k, v) of `sequences` is (T, H, d)."""
            assert self.plans and q.dtype == self.dtypes["q_data_type"]
            outs, lses = [], []
            for one, k, v in sequences:
                assert (
                    k.dtype == self.dtypes["kv_data_type"] and one.stride(-1) == k.stride(-1) == 1
                )
                check_tensors(one[None], k[None], v[None], 256)
                right = 0 if self.causal else None
                seen = visible(len(one), len(k), self.left, right, habits.bottom_right)
                out, lse = attention(
                    *(one[None], k[None], v[None]),
                    scale=self.scale,
                    seen=seen,
                    softcap=self.softcap,
                )
                outs.append(out[0])
                lses.append(lse[0].T / math.log(2) * habits.lse_factor)
            return (torch.cat(outs), torch.cat(lses)) if return_lse else torch.cat(outs)

        def of_pages(self, paged_kv_cache):
            """The keys and values of each sequence, (T, H_kv, d)."""
            k, v = paged_kv_cache
            assert k.shape == v.shape and k.stride() == v.stride()
            assert k.shape[1:] == (self.page_size, self.H_kv, self.d_h)
            for i in range(len(self.indptr) - 1):
                numbers = self.indices[self.indptr[i] : self.indptr[i + 1]].long()
                length = self.page_size * (len(numbers) - 1) + int(self.last_page_len[i])
                yield tuple(pages[numbers].flatten(0, 1)[:length] for pages in (k, v))

    def starts(indptr):
        assert indptr.dtype == torch.int32
        return indptr.tolist()

    class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
        def plan(
            self,
            qo_indptr,
            kv_indptr,
            num_qo_heads,
            num_kv_heads,
            head_dim_qk,
            head_dim_vo=None,
            causal=False,
            pos_encoding_mode="NONE",
            window_left=-1,
            logits_soft_cap=None,
            sm_scale=None,
            q_data_type="float16",
            kv_data_type=None,
        ):
            given = {k: v for k, v in locals().items() if k in PLANNED}
            self.planned(sizes=(num_qo_heads, num_kv_heads, head_dim_qk), **given)
            self.q_starts, self.kv_starts = starts(qo_indptr), starts(kv_indptr)

        def run(self, q, k, v, *args, return_lse=False):
            assert (q.shape[0], k.shape[0]) == (self.q_starts[-1], self.kv_starts[-1])
            pieces = zip(pairwise(self.q_starts), pairwise(self.kv_starts), strict=True)
            sequences = [(q[a:b], k[c:d], v[c:d]) for (a, b), (c, d) in pieces]
            return self.computed(q, sequences, return_lse)

    class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
        def plan(
            self,
            qo_indptr,
            paged_kv_indptr,
            paged_kv_indices,
            paged_kv_last_page_len,
            num_qo_heads,
            num_kv_heads,
            head_dim_qk,
            page_size,
            head_dim_vo=None,
            causal=False,
            pos_encoding_mode="NONE",
            sm_scale=None,
            window_left=-1,
            logits_soft_cap=None,
            q_data_type="float16",
            kv_data_type=None,
        ):
            given = {k: v for k, v in locals().items() if k in PLANNED}
            self.planned(sizes=(num_qo_heads, num_kv_heads, head_dim_qk), **given)
            self.q_starts, self.indptr = starts(qo_indptr), starts(paged_kv_indptr)
            self.indices, self.last_page_len = paged_kv_indices, paged_kv_last_page_len
            self.page_size = page_size

        def run(self, q, paged_kv_cache, *args, return_lse=False):
            pieces = zip(pairwise(self.q_starts), self.of_pages(paged_kv_cache), strict=True)
            return self.computed(q, [(q[a:b], k, v) for (a, b), (k, v) in pieces], return_lse)

    class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
        def __init__(self, float_workspace_buffer, kv_layout="NHD", *, use_tensor_cores=False):
            super().__init__(float_workspace_buffer, kv_layout)
            self.use_tensor_cores = use_tensor_cores

        def plan(
            self,
            indptr,
            indices,
            last_page_len,
            num_qo_heads,
            num_kv_heads,
            head_dim,
            page_size,
            *,
            pos_encoding_mode="NONE",
            window_left=-1,
            logits_soft_cap=None,
            q_data_type="float16",
            kv_data_type=None,
            sm_scale=None,
        ):
            assert self.use_tensor_cores or num_qo_heads // num_kv_heads in (1, 2, 3, 4, 8)
            given = {k: v for k, v in locals().items() if k in PLANNED}
            self.planned(sizes=(num_qo_heads, num_kv_heads, head_dim), causal=False, **given)
            self.indptr, self.indices, self.last_page_len = starts(indptr), indices, last_page_len
            self.page_size = page_size

        def run(self, q, paged_kv_cache, *args, return_lse=False):
            sequences = [(q[i : i + 1], *kv) for i, kv in enumerate(self.of_pages(paged_kv_cache))]
            assert len(sequences) == len(q)
            return self.computed(q, sequences, return_lse)

    wrappers = (
        BatchPrefillWithRaggedKVCacheWrapper,
        BatchPrefillWithPagedKVCacheWrapper,
        BatchDecodeWithPagedKVCacheWrapper,
    )
    modules = {"flashinfer": {wrapper.__name__: wrapper for wrapper in wrappers}}
    install(monkeypatch, "flashinfer-python", "0.7.2", modules)
    return habits

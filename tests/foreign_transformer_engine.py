"""A stand-in for Transformer Engine's DotProductAttention on cuDNN, in float64."""

from __future__ import annotations

import os

import pytest
import torch

from tests.foreign_libraries import Habits, attention, check_tensors, install, visible

MASKS = ("no_mask", "causal", "causal_bottom_right")


def transformer_engine(monkeypatch: pytest.MonkeyPatch) -> Habits:
    """`transformer_engine` 2.20: the corner is in the mask's name, and a backend in variables."""
    habits = Habits()

    class DotProductAttention(torch.nn.Module):
        def __init__(
            self,
            num_attention_heads,
            kv_channels,
            num_gqa_groups=None,
            attention_dropout=0.0,
            qkv_format="sbhd",
            attn_mask_type="causal",
            window_size=None,
            bottom_right_diagonal=None,
            attention_type="self",
            softmax_scale=None,
        ):
            super().__init__()
            assert attention_dropout == 0.0 and attn_mask_type in MASKS
            assert bottom_right_diagonal is None
            channels = kv_channels if isinstance(kv_channels, tuple) else (kv_channels,) * 2
            self.heads = (num_attention_heads, num_gqa_groups or num_attention_heads, *channels)
            self.qkv_format, self.attention_type = qkv_format, attention_type
            self.mask, self.window = attn_mask_type, window_size or (-1, 0)
            self.scale = channels[0] ** -0.5 if softmax_scale is None else softmax_scale

        def forward(self, query_layer, key_layer, value_layer):
            q, k, v = query_layer, key_layer, value_layer
            if self.qkv_format == "sbhd":
                q, k, v = (t.transpose(0, 1) for t in (q, k, v))
            check_tensors(q, k, v, 256)
            assert (q.shape[2], k.shape[2], q.shape[3], v.shape[3]) == self.heads
            assert (self.attention_type == "self") == (q.shape[1] == k.shape[1])
            backends = {n: os.environ.get(n, "1") for n in ("NVTE_FLASH_ATTN", "NVTE_UNFUSED_ATTN")}
            habits.told.append({"training": self.training, **backends})
            if q.shape[3] == 136:
                raise ValueError(
                    "No dot product attention backend is available for the provided inputs."
                )
            is_causal = self.mask != "no_mask"
            left = self.window[0] + habits.more_window if self.window[0] >= 0 else None
            is_right = self.mask == "causal_bottom_right" and habits.bottom_right
            seen = visible(
                q.shape[1], k.shape[1], left, 0 if is_causal else None, bottom_right=is_right
            )
            out, _ = attention(q, k, v, scale=self.scale, seen=seen)
            out = out.flatten(2)
            return out.transpose(0, 1) if self.qkv_format == "sbhd" else out

    modules = {
        "transformer_engine": {},
        "transformer_engine.pytorch": {"DotProductAttention": DotProductAttention},
    }
    install(monkeypatch, "transformer-engine", "2.20.2", modules)
    return habits

"""The shapes of published models agree with what their papers say elsewhere."""

from __future__ import annotations

import csv

import pytest

from impls.interface.layer_cost import cache_bytes, weights
from impls.interface.layer_shape import Latent
from impls.layer.models import TABLE, model, models


def test_every_row_has_a_source_to_look_up_and_as_many_fields_as_the_head():
    with TABLE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, strict=True))
    assert {len(line) for line in lines} == {len(lines[0])}
    for one in models().values():
        assert one.source and one.url.startswith("https://"), one.name
        assert one.typical_T > 0
    assert len(models()) == len(lines) - 1


def test_attention_parameters_are_those_that_papers_give_for_whole_models():
    """A third of GPT-3's 12·d_model² a layer is attention; Llama-2-70B has 69 B in all."""
    gpt_3, llama = model("gpt-3-175b").shape, model("llama-2-70b").shape
    assert 3 * weights(gpt_3) / 175e9 == pytest.approx(1, abs=0.01)
    feed_forward, embeddings = 3 * 8192 * 28672 * 80, 2 * 32000 * 8192
    assert weights(llama) + feed_forward + embeddings == pytest.approx(68.98e9, rel=1e-3)


def test_heads_fill_the_width_of_all_but_the_models_known_for_it():
    """A slip in d_model, H or d_h would show; these four are so in their papers."""
    layers = {name: one.shape.layer for name, one in models().items()}
    odd = {name for name, layer in layers.items() if layer.H * layer.d_h != layer.d_model}
    assert odd == {"palm-540b", "gemma-1-7b", "gemma-2-9b", "deepseek-v2"}
    grouped = {name: layer.H_kv for name, layer in layers.items() if layer.H_kv != layer.H}
    assert grouped.pop("palm-540b") == grouped.pop("gemma-1-2b") == 1
    assert set(grouped.values()) == {8}
    assert set(grouped) == {
        *("llama-2-70b", "mistral-7b", "gemma-2-9b", "olmo-2-32b", "llama-3-8b", "llama-3-70b"),
    }


def test_deepseek_v2_caches_four_and_a_half_heads_a_token():
    """DeepSeek-V2, Table 1: (d_c + d_R)·l ≈ 9/2·d_h·l elements a token."""
    deepseek = model("deepseek-v2").shape
    assert cache_bytes(deepseek, 1, "bfloat16") == 2 * 60 * 9 * 128 // 2
    assert deepseek.layer.latent == Latent(d_c=512, d_R=64, d_v=128, d_c_q=1536)


def test_windows_are_of_all_layers_or_of_every_other():
    mistral, gemma = model("mistral-7b").shape, model("gemma-2-9b").shape
    assert (mistral.window, mistral.L_window, mistral.L) == (4096, 32, 32)
    assert (gemma.window, gemma.L_window, gemma.L) == (4096, 21, 42)
    at_8k, at_4k = (cache_bytes(mistral, T, "float16") for T in (8192, 4096))
    assert at_8k == at_4k


def test_encoders_see_all_and_decoders_what_is_before():
    sees_all = {name for name, one in models().items() if not one.shape.layer.is_causal}
    encoders = {"bert-base", "bert-large", "t5-xxl", "vit-b-16", "whisper-large"}
    lineage = {name for name in models() if name.startswith("transformer-")}
    assert sees_all == encoders | lineage | {"alphafold2-msa-row"}


def test_names_are_found_in_any_case_and_close_ones_are_offered():
    assert model("LLaMA-2-70B") is models()["llama-2-70b"]
    with pytest.raises(ValueError, match='no model "lama-2-70b": did you mean llama-2-70b'):
        model("lama-2-70b")
    with pytest.raises(ValueError, match='no model "zzz": known: transformer-base, '):
        model("zzz")

"""Hugging Face configurations of many families, read as the sizes of attention layers."""

from __future__ import annotations

import json

import pytest

from impls.interface.layer_shape import Latent
from impls.layer.model_config import read_config
from impls.layer.models import model

LLAMA = {
    "_name_or_path": "meta-llama/Llama-2-70b-hf",
    "model_type": "llama",
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_hidden_layers": 80,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 12}


@pytest.fixture
def read(tmp_path):
    def written(**fields):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(fields), encoding="utf-8")
        return read_config(path)

    return written


def test_a_configuration_is_the_same_as_the_named_model(read):
    found, dtype = read(**LLAMA)
    assert found.shape == model("llama-2-70b").shape
    assert (found.name, found.typical_T, dtype) == ("Llama-2-70b-hf", 4096, "bfloat16")


@pytest.mark.parametrize(
    "fields, sizes",
    [
        # (d_model, H, H_kv, d_h, L, is_causal)
        ({"n_embd": 768, "n_head": 12, "n_layer": 12, "model_type": "gpt2"}, (768, 12, 12, 64, 12)),
        ({**SMALL, "num_key_value_heads": None}, (64, 4, 4, 16, 12)),
        ({**SMALL, "head_dim": 32, "num_key_value_heads": 1}, (64, 4, 1, 32, 12)),
        ({**SMALL, "multi_query": True, "num_kv_heads": 4}, (64, 4, 1, 16, 12)),
        (
            {**SMALL, "multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 2},
            (64, 4, 2, 16, 12),
        ),
        (
            {"d_model": 64, "n_heads": 4, "n_layers": 3, "attn_config": {"kv_n_heads": 2}},
            (64, 4, 2, 16, 3),
        ),
        (
            {
                **{"hidden_size": 64, "num_attention_heads": 4, "num_layers": 5},
                **{"kv_channels": 32, "multi_query_attention": True, "multi_query_group_num": 2},
            },
            (64, 4, 2, 32, 5),
        ),
        ({**SMALL, "multi_query_attention": False, "multi_query_group_num": 2}, (64, 4, 4, 16, 12)),
        ({"vision_config": {}, "text_config": {**SMALL, "head_dim": 8}}, (64, 4, 4, 8, 12)),
    ],
)
def test_families_name_their_sizes_differently(read, fields, sizes):
    shape = read(**fields)[0].shape
    layer = shape.layer
    assert (layer.d_model, layer.H, layer.H_kv, layer.d_h, shape.L) == sizes
    assert layer.is_causal


@pytest.mark.parametrize(
    "fields",
    [
        {**SMALL, "model_type": "bert"},
        {
            **{"is_encoder_decoder": True, "d_model": 64, "num_heads": 4, "num_layers": 12},
            **{"d_kv": 16, "model_type": "t5"},
        },
        {
            **{"is_encoder_decoder": True, "d_model": 64, "encoder_attention_heads": 4},
            **{"encoder_layers": 12, "max_source_positions": 1500},
        },
    ],
)
def test_encoders_see_all(read, fields):
    found = read(**fields)[0]
    assert not found.shape.layer.is_causal
    assert (found.shape.L, found.shape.layer.d_h) == (12, 16)


def test_a_latent_is_read_with_and_without_a_latent_of_queries(read):
    fields = {
        **{"hidden_size": 5120, "num_attention_heads": 128, "num_key_value_heads": 128},
        **{"num_hidden_layers": 60, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        **{"qk_nope_head_dim": 128, "v_head_dim": 128},
    }
    assert read(**fields, q_lora_rank=1536)[0].shape == model("deepseek-v2").shape
    assert read(**fields, q_lora_rank=None)[0].shape.layer.latent == Latent(512, 64, 128, None)


@pytest.mark.parametrize(
    "fields, window, L_window, L",
    [
        ({"sliding_window": 9, "model_type": "mistral"}, 9, 12, 12),
        ({"sliding_window": None, "model_type": "mistral"}, None, 0, 12),
        ({"sliding_window": 9, "use_sliding_window": False, "max_window_layers": 3}, None, 0, 12),
        ({"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 3}, 9, 9, 12),
        ({"sliding_window": 9, "model_type": "gemma2"}, 9, 6, 12),
        ({"sliding_window": 9, "sliding_window_pattern": 6}, 9, 10, 12),
        (
            {
                "sliding_window": 9,
                "layer_types": 4 * ["sliding_attention"] + 2 * ["full_attention"],
            },
            *(9, 4, 6),
        ),
        ({"layer_types": 9 * ["linear_attention"] + 3 * ["full_attention"]}, None, 0, 3),
    ],
)
def test_windows_are_of_the_layers_that_have_them(read, fields, window, L_window, L):
    shape = read(**SMALL, **fields)[0].shape
    assert (shape.window, shape.L_window, shape.L) == (window, L_window, L)


def test_layers_that_do_not_attend_are_told(read):
    found = read(**SMALL, layer_types=9 * ["linear_attention"] + 3 * ["full_attention"])[0]
    assert found.note == "3 of 12 layers are attention, the others not counted"


def test_gemma_2_from_its_file_is_gemma_2_from_the_table(read):
    fields = {
        **{"model_type": "gemma2", "hidden_size": 3584, "num_attention_heads": 16},
        **{"num_key_value_heads": 8, "head_dim": 256, "num_hidden_layers": 42},
        **{"sliding_window": 4096, "max_position_embeddings": 8192},
    }
    found = read(**fields)[0]
    assert found.shape == model("gemma-2-9b").shape
    assert (found.name, found.typical_T) == ("gemma2", 8192)


def test_what_is_no_configuration_is_refused_with_its_path(read, tmp_path):
    path = tmp_path / "config.json"
    with pytest.raises(ValueError, match=r"config\.json: No such file"):
        read_config(path)
    for text, told in (("{", "is not JSON"), ("[1]", "no JSON object"), ("\xff", "is not JSON")):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=f"config.json.*{told}"):
            read_config(path)
    with pytest.raises(ValueError, match=r"config\.json: no num_attention_heads or n_head"):
        read(hidden_size=64, num_hidden_layers=2)
    with pytest.raises(ValueError, match=r"config\.json: d_model=65 is not a multiple of H=4"):
        read(**{**SMALL, "hidden_size": 65})
    with pytest.raises(ValueError, match=r"config\.json: H='4' is not a size"):
        read(**{**SMALL, "num_attention_heads": "4"})

"""A Hugging Face `config.json` on disk, read as the sizes of a model's attention layers.

Names differ between families (`transformers`, src/transformers/models/*/configuration_*.py); those
in use are tried in turn. Nothing is downloaded, and no code of the file's model is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from impls.interface.layer_shape import Latent, LayerShape, ModelShape
from impls.interface.problem import DTYPES
from impls.layer.models import Model

# Where the language model of a multimodal one is described.
_NESTED = ("text_config", "llm_config", "language_config")
_D_MODEL = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
_H = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
_H_KV = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_D_H = ("head_dim", "d_kv", "kv_channels")
_L = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
_T = (
    *("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"),
    "max_source_positions",
)
# A layer of another type (linear, recurrent, convolution) is no attention layer.
_ATTENDS, _SLIDES = ("full_attention", "attention"), ("sliding_attention",)
# One layer in so many is full where older files leave it to the code.
_PATTERNS = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}
_ENCODERS = (
    *("albert", "beit", "bert", "deberta", "deberta-v2", "deit", "dinov2", "distilbert"),
    *("electra", "hubert", "modernbert", "roberta", "vit", "wav2vec2", "xlm-roberta"),
)
DEFAULT_T = 4096


def read_config(path: Path) -> tuple[Model, str | None]:
    """The model a configuration file describes, and its dtype where it says a known one.

    The model is named by the file's `_name_or_path`, else its `model_type`, else its folder.

    Raises:
        ValueError: the file is missing or no JSON object, a size is not in it, or a size is none;
            the message names the file and what was looked for.
    """
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(whole, dict):
        raise ValueError(f"{path} holds no JSON object: it is no config.json")
    config = next((whole[key] for key in _NESTED if isinstance(whole.get(key), dict)), whole)
    try:
        shape, notes = _shape(config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    named = whole.get("_name_or_path") or whole.get("model_type") or path.resolve().parent.name
    dtype = config.get("dtype") or config.get("torch_dtype") or whole.get("torch_dtype")
    model = Model(
        name=str(named).rstrip("/").rpartition("/")[2],
        shape=shape,
        typical_T=_first(config, _T) or DEFAULT_T,
        source=str(path),
        note="; ".join(notes),
    )
    return model, dtype if dtype in DTYPES else None


def _shape(config: Mapping[str, Any]) -> tuple[ModelShape, list[str]]:
    """The sizes, and what the reader should know of how they were read."""
    notes = []
    kind = config.get("model_type", "")
    is_both = bool(config.get("is_encoder_decoder"))
    if is_both:
        notes.append("the encoder's self-attention alone")
    layer = LayerShape(
        d_model=_needed(config, _D_MODEL),
        H=_needed(config, _H),
        H_kv=-1 if "kv_lora_rank" in config else _H_kv(config),
        d_h=config.get("qk_nope_head_dim") or _first(config, _D_H) or -1,
        latent=_latent(config),
        is_causal=not is_both and (kind not in _ENCODERS or bool(config.get("is_decoder"))),
    )
    L, window, L_window = _windows(config, kind)
    if _needed(config, _L) != L:
        notes.append(f"{L} of {_needed(config, _L)} layers are attention, the others not counted")
    return ModelShape(layer, L, window, L_window), notes


def _H_kv(config: Mapping[str, Any]) -> int:
    """The kv heads, −1 where they are as many as query heads.

    Falcon writes `multi_query` for one, but only outside its `new_decoder_architecture`; GLM
    counts its groups only where `multi_query_attention` says so; MPT nests the number.
    """
    is_old = not config.get("new_decoder_architecture", False)
    if config.get("multi_query") and is_old:
        return 1
    if config.get("multi_query_attention") is False:
        return -1
    attention = config.get("attn_config")
    nested = attention.get("kv_n_heads") if isinstance(attention, dict) else None
    return nested or _first(config, _H_KV) or -1


def _latent(config: Mapping[str, Any]) -> Latent | None:
    if config.get("kv_lora_rank") is None:
        return None
    return Latent(
        d_c=config["kv_lora_rank"],
        d_R=_needed(config, ("qk_rope_head_dim",)),
        d_v=_needed(config, ("v_head_dim",)),
        d_c_q=config.get("q_lora_rank"),
    )


def _windows(config: Mapping[str, Any], kind: str) -> tuple[int, int | None, int]:
    """How many layers attend, the window, and how many have it."""
    L, window = _needed(config, _L), config.get("sliding_window")
    types = config.get("layer_types")
    if isinstance(types, list):
        full = sum(one in _ATTENDS for one in types)
        sliding = sum(one in _SLIDES for one in types)
        return full + sliding, window if sliding else None, sliding
    if window is None or config.get("use_sliding_window") is False:
        return L, None, 0
    if config.get("use_sliding_window"):
        # Qwen2: the first so many layers are full.
        sliding = max(0, L - config.get("max_window_layers", 0))
    else:
        pattern = config.get("sliding_window_pattern") or _PATTERNS.get(kind)
        sliding = L - L // pattern if pattern else L
    return L, window if sliding else None, sliding


def _needed(config: Mapping[str, Any], names: tuple[str, ...]) -> int:
    found = _first(config, names)
    if found is None:
        raise ValueError(f"no {' or '.join(names)} in it")
    return found


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((config[name] for name in names if config.get(name) is not None), None)

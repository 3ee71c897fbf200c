"""Heads taken out of a layer for good: smaller projections and a smaller core, nothing masked.

Michel et al. 2019, "Are Sixteen Heads Really Better than One?", https://arxiv.org/abs/1905.10650,
and Voita et al. 2019, https://arxiv.org/abs/1905.09418: most heads can go after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from impls.layer.attention_layer import AttentionLayer


def pruned(layer: AttentionLayer, keep: torch.Tensor | Sequence[bool]) -> AttentionLayer:
    """A layer of the query heads where `keep` (H,) is True, giving what they add up to.

    That is what the whole layer gives when the output of every other head is set to 0. A kv head
    goes with the last query head that reads it. d_h and d_model stay: H·d_h is no longer d_model.

    Raises:
        ValueError: not H of them, none kept, or kv heads are left with unequal numbers of query
            heads, which no grouped attention has.
    """
    shape = layer.shape
    kept = torch.as_tensor(keep)
    if kept.dtype != torch.bool or kept.shape != (shape.H,):
        raise ValueError(f"keep is {kept.dtype} {tuple(kept.shape)}: give H={shape.H} bools")
    groups = kept.reshape(shape.H_kv, shape.H // shape.H_kv).sum(1).tolist()
    kv_kept = torch.tensor([count > 0 for count in groups])
    sizes = {count for count in groups if count}
    if not sizes:
        raise ValueError(f"no head of H={shape.H} is kept: keep one at least")
    if len(sizes) > 1:
        raise ValueError(
            f"kv heads would serve {', '.join(map(str, groups))} query heads: keep the same number "
            "of each, or none of it"
        )
    smaller = AttentionLayer(
        replace(shape, H=int(kept.sum()), H_kv=int(kv_kept.sum())),
        layer.implementation,
        decode_implementation=layer.decode_implementation,
        rotary_base=None if layer.rotary is None else layer.rotary.base,
        bias=layer.bias,
        fused_qkv=layer.fused_qkv,
    ).to(layer.o_proj.weight)
    query, key = (flags.repeat_interleave(shape.d_h) for flags in (kept, kv_kept))
    rows = {"q_proj": query, "k_proj": key, "v_proj": key, "qkv_proj": torch.cat([query, key, key])}
    state = layer.state_dict()
    for name, parameter in state.items():
        projection = name.split(".")[0]
        if projection in rows:
            state[name] = parameter[rows[projection].to(parameter.device)]
        elif name == "o_proj.weight":
            state[name] = parameter[:, query.to(parameter.device)]
    smaller.load_state_dict(state)
    return smaller.train(layer.training)

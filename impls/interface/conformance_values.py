"""The values and masks that the conformance matrix names, each made to show a kind of bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from impls.interface.inputs import Inputs, make_inputs
from impls.interface.problem import Problem


def make_values(word: str, problem: Problem, device: str) -> Inputs:
    """The inputs that `word` of `VALUES` names."""
    inputs = make_inputs(problem, device, seed=1 if word == "other seed" else 0)
    return VALUES[word](inputs)


def make_mask(word: str, problem: Problem, device: str) -> torch.Tensor:
    """The mask that `word` of `MASKS` names; it broadcasts to (B, H, T_q, T_kv)."""
    return MASKS[word](problem, torch.Generator().manual_seed(7)).to(device)


def _as_they_are(inputs: Inputs) -> Inputs:
    return inputs


def _dominating_columns(inputs: Inputs) -> Inputs:
    """Columns from 64 on, or else the last one, decide: a kernel that leaves them is far off."""
    d_h = inputs.k.shape[-1]
    inputs.k[..., min(64, d_h - 1) :] *= 10.0
    return inputs


def _large_logits(inputs: Inputs) -> Inputs:
    inputs.q.mul_(30.0)
    return inputs


def _negative_scores(inputs: Inputs) -> Inputs:
    """All scores well below 0, so that a key of zeros past the end takes the row over."""
    inputs.q.abs_()
    inputs.k.abs_().neg_()
    return inputs


def _equal_keys(inputs: Inputs) -> Inputs:
    """All weights of a row are equal: the output is a mean of v and the lse a logarithm."""
    inputs.k.copy_(inputs.k[:, :, :1].clone().expand_as(inputs.k))
    return inputs


def _equal_queries(inputs: Inputs) -> Inputs:
    """Rows differ by what they may see and by nothing else."""
    inputs.q.copy_(inputs.q[:, :, :1].clone().expand_as(inputs.q))
    return inputs


def _tiny_scores(inputs: Inputs) -> Inputs:
    inputs.q.mul_(1e-3)
    return inputs


def _last_key_dominates(inputs: Inputs) -> Inputs:
    """Nearly all weight is on the last key: whoever misses it, or sees it too early, is far off."""
    inputs.q.abs_()
    inputs.k[:, :, -1:].fill_(2.0)
    return inputs


def _large_values(inputs: Inputs) -> Inputs:
    inputs.v.mul_(100.0)
    return inputs


def _far_from_zero(inputs: Inputs) -> Inputs:
    """Scores and values share a large part: small differences of large numbers count."""
    inputs.q.add_(2.0)
    inputs.v.add_(10.0)
    return inputs


def _overflowing(inputs: Inputs) -> Inputs:
    """Two of three keys have the score 741455, the third its negative: out = mean of two values."""
    inputs.q.fill_(256.0)
    inputs.k[:, :, :2], inputs.k[:, :, 2:] = 256.0, -256.0
    inputs.v[:, :, 2] = 100.0
    return inputs


def _every_second(inputs: Inputs) -> Inputs:
    """The last dimension has stride 2; what lies between is NaN."""

    def spread(tensor: torch.Tensor) -> torch.Tensor:
        room = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1]), torch.nan)
        return room[..., ::2].copy_(tensor)

    return replace(inputs, q=spread(inputs.q), k=spread(inputs.k), v=spread(inputs.v))


def _transposed_storage(inputs: Inputs) -> Inputs:
    """Storage (B, H, d, T): the last dimension is not the one that is contiguous."""

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.mT.contiguous().mT

    return replace(inputs, q=turned(inputs.q), k=turned(inputs.k), v=turned(inputs.v))


def _slice_of_a_nan_cache(inputs: Inputs) -> Inputs:
    """Keys and values begin longer buffers of NaN, which nobody may read past T_kv."""

    def cached(tensor: torch.Tensor) -> torch.Tensor:
        B, H, T, d = tensor.shape
        room = tensor.new_full((B, H, T + 64, d), torch.nan)
        return room[:, :, :T].copy_(tensor)

    return replace(inputs, k=cached(inputs.k), v=cached(inputs.v))


def _gradient_of_a_sum(inputs: Inputs) -> Inputs:
    """The gradient that `out.sum()` sends: one number of storage, all strides 0."""
    one = inputs.d_out.new_ones(())
    return replace(inputs, d_out=one.expand(inputs.d_out.shape))


def _gradient_turned(inputs: Inputs) -> Inputs:
    """The gradient lies as no output does: (B, d, T, H)."""
    turned = inputs.d_out.permute(0, 3, 2, 1).contiguous()
    return replace(inputs, d_out=turned.permute(0, 3, 2, 1))


VALUES: dict[str, Callable[[Inputs], Inputs]] = {
    "normal": _as_they_are,
    "other seed": _as_they_are,
    "dominating columns": _dominating_columns,
    "large logits": _large_logits,
    "negative scores": _negative_scores,
    "equal keys": _equal_keys,
    "equal queries": _equal_queries,
    "tiny scores": _tiny_scores,
    "last key dominates": _last_key_dominates,
    "large values": _large_values,
    "far from zero": _far_from_zero,
    "overflowing": _overflowing,
    "every second element": _every_second,
    "transposed storage": _transposed_storage,
    "slice of a NaN cache": _slice_of_a_nan_cache,
    "gradient of a sum": _gradient_of_a_sum,
    "gradient turned": _gradient_turned,
}


def _random(p: Problem, generator: torch.Generator) -> torch.Tensor:
    return torch.rand((p.B, p.H, p.T_q, p.T_kv), generator=generator) < 0.6


def _of_each_key(p: Problem, generator: torch.Generator) -> torch.Tensor:
    """Sequences of different lengths: (B, 1, 1, T_kv)."""
    length = torch.arange(p.T_kv - p.B + 1, p.T_kv + 1)
    return (torch.arange(p.T_kv) < length[:, None])[:, None, None, :]


def _causal(p: Problem, generator: torch.Generator) -> torch.Tensor:
    return torch.ones(p.T_q, p.T_kv, dtype=torch.bool).tril(p.T_kv - p.T_q)


def _dead_rows(p: Problem, generator: torch.Generator) -> torch.Tensor:
    mask = _random(p, generator)[:, :1]
    mask[:, :, [2, p.T_q - 1]] = False
    return mask


def _all_dead(p: Problem, generator: torch.Generator) -> torch.Tensor:
    return torch.zeros(p.T_kv, dtype=torch.bool)


def _bias(p: Problem, generator: torch.Generator) -> torch.Tensor:
    """A slope per head and some noise: (H, T_q, T_kv)."""
    slope = 0.5 ** torch.arange(1, p.H + 1)[:, None, None]
    noise = torch.randn((p.H, p.T_q, p.T_kv), generator=generator)
    return noise - slope * (torch.arange(p.T_q)[:, None] - torch.arange(p.T_kv)).abs()


def _bias_with_infinities(p: Problem, generator: torch.Generator) -> torch.Tensor:
    return _bias(p, generator).masked_fill(~_random(p, generator), -torch.inf)


def _bias_with_dead_rows(p: Problem, generator: torch.Generator) -> torch.Tensor:
    return _bias(p, generator).masked_fill(~_dead_rows(p, generator), -torch.inf)


MASKS: dict[str, Callable[[Problem, torch.Generator], torch.Tensor]] = {
    "bool": _random,
    "bool, of each key": _of_each_key,
    "bool, causal": _causal,
    "bool, dead rows": _dead_rows,
    "bool, all dead": _all_dead,
    "float": _bias,
    "float, −inf": _bias_with_infinities,
    "float, dead rows": _bias_with_dead_rows,
}

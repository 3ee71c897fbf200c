"""Multi-head latent attention (MLA): keys and values of all heads from one narrow, cached latent.

DeepSeek-V2 (2024), https://arxiv.org/abs/2405.04434, section 2.1 and appendix C. Its RMS norms of
the latents (section 3.1.2) are left out: they change neither form's products.
"""

from __future__ import annotations

import torch
from torch import nn

from impls.interface.attention import Implementation, attend
from impls.interface.layer_shape import Latent, LayerShape
from impls.layer.attention_layer import Heads, check_tokens, chosen, warn_of_narrow_heads
from impls.layer.kv_cache import LatentCache
from impls.layer.rotary import BASE, Rotary


class LatentAttention(nn.Module):
    """MLA as a layer, (B, T, d_model) → (B, T, d_model), in two forms that give the same.

    Of each token the latent c (d_c) and the rotary key (d_R), shared by all heads, are kept. A
    head's key is [W_UK·c, rotary key] (d_h + d_R), its value W_UV·c (d_v); its query
    [W_UQ·c_q, rotary query]; the scale is 1/√(d_h + d_R) (section 2.1.3 and appendix C).

    *Expanded*, keys and values are made for every head: cheapest where a key is read by many
    queries, as in prefill. *Absorbed*, W_UK is applied to the query and W_UV to the result, so that
    the core is multi-query attention over the cache itself: one key (d_c + d_R) for all heads,
    whose first d_c elements are also the value. That is how it decodes.

    Args:
        shape: the sizes, with a latent.
        implementation: the core of the expanded form; both need d_v ≠ d_h and a scale.
        decode_implementation: the core of the absorbed form; None is the same one.
        rotary_base: of the rotary parts.

    Raises:
        ValueError: the shape has no latent, no such implementation, or d_R is odd.
    """

    def __init__(
        self,
        shape: LayerShape,
        implementation: str | Implementation = "naive",
        *,
        decode_implementation: str | Implementation | None = None,
        rotary_base: float = BASE,
    ) -> None:
        super().__init__()
        if shape.latent is None:
            raise ValueError("the shape has no latent: that layer is AttentionLayer")
        warn_of_narrow_heads(shape)
        self.shape = shape
        self.latent: Latent = shape.latent
        self.implementation = chosen(implementation)
        self.decode_implementation = chosen(decode_implementation or implementation)
        d_c, d_R, d_v, d_c_q = (getattr(shape.latent, n) for n in ("d_c", "d_R", "d_v", "d_c_q"))
        self.rotary = Rotary(d_R, rotary_base)
        self.scale = (shape.d_h + d_R) ** -0.5
        if d_c_q is None:
            self.q_down = nn.Identity()
        else:
            self.q_down = nn.Linear(shape.d_model, d_c_q, bias=False)
        self.q_up = nn.Linear(d_c_q or shape.d_model, shape.H * (shape.d_h + d_R), bias=False)
        self.kv_down = nn.Linear(shape.d_model, d_c + d_R, bias=False)
        self.k_up = nn.Linear(d_c, shape.H * shape.d_h, bias=False)
        self.v_up = nn.Linear(d_c, shape.H * d_v, bias=False)
        self.o_proj = nn.Linear(shape.H * d_v, shape.d_model, bias=False)

    def forward(
        self, x: torch.Tensor, *, cache: LatentCache | None = None, absorbed: bool | None = None
    ) -> torch.Tensor:
        """The whole layer, (B, T, d_model) → (B, T, d_model); see `project` for the cache.

        `absorbed` None is: absorbed where the cache already holds tokens, else expanded.
        """
        if absorbed is None:
            absorbed = cache is not None and cache.length > 0
        heads = self.project(x, cache=cache, absorbed=absorbed)
        return self.output(self.core(heads, absorbed=absorbed), absorbed=absorbed)

    def project(
        self, x: torch.Tensor, *, cache: LatentCache | None = None, absorbed: bool = False
    ) -> Heads:
        """What the core is given; with a cache x are the tokens after those in it, and appended.

        Expanded: q (B, H, T, d_h + d_R), k (B, H, T_kv, d_h + d_R), v (B, H, T_kv, d_v).
        Absorbed: q (B, H, T, d_c + d_R), k (B, 1, T_kv, d_c + d_R), v the first d_c of k.

        Raises:
            ValueError: x is not (B, T, d_model); a cache that is full or of a layer not causal.
        """
        if cache is not None and not self.shape.is_causal:
            raise ValueError("a cache needs a causal layer: its tokens do not see those to come")
        start = 0 if cache is None else cache.length
        content, rotary = self._queries(x, start)
        latent = self._latents(x, start)
        if cache is not None:
            cache.append(latent)
            latent = cache.latent
        if absorbed:
            # (W_UK·c)·q = c·(W_UKᵀ·q), for each head its own W_UK (d_h, d_c).
            up = self.k_up.weight.unflatten(0, (self.shape.H, self.shape.d_h))
            q = torch.cat([content @ up, rotary], -1)
            return Heads(q, latent, latent[..., : self.latent.d_c])
        return self._expanded(torch.cat([content, rotary], -1), latent)

    def core(self, heads: Heads, *, absorbed: bool = False) -> torch.Tensor:
        """The attention of the heads → (B, H, T, d_v), or absorbed (B, H, T, d_c).

        Raises:
            Unsupported: the implementation does not do this problem.
        """
        implementation = self.decode_implementation if absorbed else self.implementation
        shape = self.shape
        masking = {"causal": shape.is_causal, "window": shape.window}
        return attend(implementation, *heads, scale=self.scale, **masking)[0]

    def output(self, attended: torch.Tensor, *, absorbed: bool = False) -> torch.Tensor:
        """The heads' values, absorbed first made of latents, projected → (B, T, d_model)."""
        if absorbed:
            up = self.v_up.weight.unflatten(0, (self.shape.H, self.latent.d_v))
            attended = attended @ up.mT
        return self.o_proj(attended.transpose(1, 2).flatten(2))

    def new_cache(self, B: int, T_max: int) -> LatentCache:
        """An empty cache for B sequences of up to T_max tokens, in the weights' dtype and place."""
        weight, of = self.o_proj.weight, self.latent
        return LatentCache(
            B=B, T_max=T_max, d_c=of.d_c, d_R=of.d_R, dtype=weight.dtype, device=weight.device
        )

    def _queries(self, x: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The part that meets the latent, (B, H, T, d_h), and the rotary part, (B, H, T, d_R)."""
        check_tokens("x", x, self.shape.d_model)
        q = self.q_up(self.q_down(x)).unflatten(-1, (self.shape.H, -1)).transpose(1, 2)
        content, rotary = q.split((self.shape.d_h, self.latent.d_R), -1)
        return content, self.rotary(rotary, start)

    def _latents(self, x: torch.Tensor, start: int) -> torch.Tensor:
        """What is kept of each token: latent and rotary key, (B, 1, T, d_c + d_R)."""
        of = self.latent
        latent, rotary = self.kv_down(x)[:, None].split((of.d_c, of.d_R), -1)
        return torch.cat([latent, self.rotary(rotary, start)], -1)

    def _expanded(self, q: torch.Tensor, latent: torch.Tensor) -> Heads:
        """Keys and values of every head; the rotary key is the same for all."""
        H, of = self.shape.H, self.latent
        content, rotary = latent.squeeze(1).split((of.d_c, of.d_R), -1)
        k, v = (up(content).unflatten(-1, (H, -1)).transpose(1, 2) for up in (self.k_up, self.v_up))
        rotary = rotary[:, None].expand(-1, H, -1, -1)
        return Heads(q, torch.cat([k, rotary], -1), v)

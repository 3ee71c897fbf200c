"""What a problem computes around its core: a part of an attention layer or of its block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from impls.interface.layer_shape import Latent, LayerShape

PARTS = ("projections", "output", "layer", "feed_forward", "block")


@dataclass(frozen=True)
class Around:
    """The part of a layer that is computed, and the sizes it has beside the core's.

    - projections: x (B, T_q, d_model) → q, k and v.
    - output: the heads (B, H, T_q, d_v), concatenated and projected → (B, T_q, d_model).
    - layer: projections, core and output.
    - feed_forward: two products with a ReLU between them, d_model → d_ff → d_model (Vaswani et al.
      2017, section 3.3).
    - block: x + layer(norm(x)), then y + feed_forward(norm(y)), as GPT-2 and its heirs have it.

    Where T_kv is larger than T_q, the T_kv − T_q tokens before stand in a cache.

    Attributes:
        part: one of `PARTS`.
        shape: the layer's sizes; the problem's own are those of its core.
        d_ff: the width of the feed-forward part; 0 where there is none.
        dropout: the share of each sublayer's output set to 0 (section 5.4); blocks only.
        is_absorbed: the core of a latent layer reads the cached latents themselves.

    Raises:
        ValueError: an unknown part, or a part without the sizes it needs.
    """

    part: str
    shape: LayerShape
    d_ff: int = 0
    dropout: float = 0.0
    is_absorbed: bool = False

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"part={self.part!r} is not known: one of {', '.join(PARTS)}")
        needs_d_ff = self.part in ("feed_forward", "block")
        if needs_d_ff != (self.d_ff > 0):
            raise ValueError(
                f"part={self.part} with d_ff={self.d_ff}: give a feed_forward or block a "
                "d_ff of 1 or more, the others none"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout} is not a share: give 0 or more, below 1")
        if self.dropout and self.part != "block":
            raise ValueError(f"dropout={self.dropout} belongs to a block, not to a {self.part}")
        if self.is_absorbed and self.shape.latent is None:
            raise ValueError("only a layer with a latent can be absorbed")

    @property
    def has_core(self) -> bool:
        """Whether attention itself is computed."""
        return self.part in ("layer", "block")

    @property
    def words(self) -> list[str]:
        """What names it beside the core's sizes, for a problem's id."""
        found = [self.part, f"d_model={self.shape.d_model}"]
        if self.shape.latent is not None:
            of = self.shape.latent
            found.append(f"latent={of.d_c}+{of.d_R}")
        if self.is_absorbed:
            found.append("absorbed")
        if self.d_ff:
            found.append(f"d_ff={self.d_ff}")
        if self.dropout:
            found.append(f"dropout={self.dropout:g}")
        return found

    def to_json(self) -> dict[str, Any]:
        """All fields, for run files."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Around:
        """What `to_json` wrote.

        Raises:
            ValueError, TypeError, KeyError: it did not write this.
        """
        sizes = dict(record["shape"])
        latent = sizes.pop("latent", None)
        shape = LayerShape(**sizes, latent=None if latent is None else Latent(**latent))
        return cls(**{**record, "shape": shape})

"""What stands around an attention layer in a model: residual sums, norms and a feed-forward part.

Vaswani et al. 2017, sections 3.1 and 3.3; the norm comes before each sublayer, as in GPT-2
(Radford et al. 2019, section 2.3).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class FeedForward(nn.Module):
    """max(0, x·W_upᵀ)·W_downᵀ, (B, T, d_model) → (B, T, d_model), through d_ff; no biases.

    Vaswani et al. 2017, equation 2.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of each token apart."""
        return self.down(torch.relu(self.up(x)))


class Block(nn.Module):
    """y = x + dropout(attention(norm(x))), then y + dropout(feed_forward(norm(y))).

    Args:
        attention: a layer (B, T, d_model) → (B, T, d_model).
        d_model, d_ff: the widths of the block and of its feed-forward part.
        dropout: the share of each sublayer's output set to 0 while training (section 5.4).
    """

    def __init__(
        self, attention: nn.Module, *, d_model: int, d_ff: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = attention
        self.attention_dropout = nn.Dropout(dropout)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, **how: Any) -> torch.Tensor:
        """The block, (B, T, d_model) → (B, T, d_model); `how` goes to its attention."""
        y = x + self.attention_dropout(self.attention(self.attention_norm(x), **how))
        return y + self.feed_forward_dropout(self.feed_forward(self.feed_forward_norm(y)))

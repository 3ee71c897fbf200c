"""What the paper's own models of 1 to 32 heads were worth: quality beside speed, as published."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    """A model's worth on a development set: perplexity, lower is better, and BLEU, higher is."""

    H: int
    perplexity: float
    bleu: float


SOURCE = (
    "Vaswani et al. 2017, Table 3, row (A) and base: English to German, newstest2013; perplexity "
    "per word piece (https://arxiv.org/abs/1706.03762)"
)
D_MODEL = 512
# H·d_h is 512 in all five: the same FLOP, and the same number of parameters.
HEAD_COUNTS = (
    Quality(H=1, perplexity=5.29, bleu=24.9),
    Quality(H=4, perplexity=5.00, bleu=25.5),
    Quality(H=8, perplexity=4.92, bleu=25.8),
    Quality(H=16, perplexity=4.91, bleu=25.8),
    Quality(H=32, perplexity=5.01, bleu=25.4),
)

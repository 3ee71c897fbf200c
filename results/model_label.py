"""The label of a series of the sweep over models, read back: which model, phase, part and length.

`suites/bench_models.py` writes it: "llama-2-70b GQA-8, prefill layer, T 64 of 4096, 16 of 64
heads", where 64 and 16 were measured and 4096 and 64 are the model's own. What is the model's own
says so by leaving out the rest: "T 512", and nothing of heads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PHASES = ("prefill", "decode")
PARTS = ("layer", "core")
_LABEL = re.compile(
    rf"(?P<model>\S+) (?P<variant>.+), (?P<phase>{'|'.join(PHASES)}) (?P<part>{'|'.join(PARTS)}), "
    r"T (?P<T>\d+)(?: of (?P<own_T>\d+))?(?:, (?P<H>\d+) of (?P<own_H>\d+) heads)?"
)


@dataclass(frozen=True)
class ModelLabel:
    """What a series measures: `variant` is "MHA", "GQA-8 window 4096" and the like.

    `ranks` is how many tensor-parallel ranks the layer's heads are divided among; 1: all are here.
    """

    model: str
    variant: str
    phase: str
    part: str
    T: int
    own_T: int
    ranks: int = 1

    @property
    def row(self) -> str:
        """The model and its kind of attention, one row of a report."""
        return f"{self.model} {self.variant}"


def read_label(series: str) -> ModelLabel | None:
    """The label of this series; None where it is not one of a model.

    >>> read_label("llama-2-70b GQA-8, prefill layer, T 64 of 4096").own_T
    4096
    """
    found = _LABEL.fullmatch(series)
    if found is None:
        return None
    T = int(found["T"])
    own_T = int(found["own_T"] or T)
    ranks = int(found["own_H"] or 1) // int(found["H"] or 1)
    names = {name: found[name] for name in ("model", "variant", "phase", "part")}
    return ModelLabel(**names, T=T, own_T=own_T, ranks=ranks)

"""The label of a series of the sweep over models, read back: which model, phase, part and length.

`suites/bench_models.py` writes it: "llama-2-70b GQA-8, prefill layer, T 64 of 4096", where 64 is
the length that was measured and 4096 the model's own, left out where both are one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PHASES = ("prefill", "decode")
PARTS = ("layer", "core")
_LABEL = re.compile(
    rf"(?P<model>\S+) (?P<variant>.+), (?P<phase>{'|'.join(PHASES)}) (?P<part>{'|'.join(PARTS)}), "
    r"T (?P<T>\d+)(?: of (?P<own_T>\d+))?"
)


@dataclass(frozen=True)
class ModelLabel:
    """What a series measures: `variant` is "MHA", "GQA-8 window 4096" and the like."""

    model: str
    variant: str
    phase: str
    part: str
    T: int
    own_T: int

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
    return ModelLabel(found["model"], found["variant"], found["phase"], found["part"], T, own_T)

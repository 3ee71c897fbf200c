"""What a wrong output is instead: the right answer to another question, told in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from impls.interface.check import check_output
from impls.interface.conformance_cases import Case
from impls.interface.inputs import Inputs
from impls.interface.reference import reference

_TOP_LEFT = (
    "its causal mask is aligned to the top left; the bottom right is wanted: "
    "query i sees keys j ≤ i + T_kv − T_q"
)


def mistaken_for(
    case: Case, inputs: Inputs, mask: torch.Tensor | None, out: torch.Tensor
) -> list[str]:
    """The usual mistake of which `out` is the exact result, as a sentence; none where of none."""
    for sentence, other, values, masking in _mistakes(case, inputs, mask):
        instead = reference(
            values,
            other.problem,
            mask=masking,
            scale=other.scale,
            softcap=other.softcap,
            gradients=False,
        )
        if check_output(out, None, None, instead).ok:
            return [sentence]
    return []


def _mistakes(
    case: Case, inputs: Inputs, mask: torch.Tensor | None
) -> Iterator[tuple[str, Case, Inputs, torch.Tensor | None]]:
    """Each with the case, inputs and mask that it would be the answer to."""
    p = case.problem
    full = replace(case, problem=p.with_(causal=False, window=None))
    if p.causal:
        yield "it is not causal, where causal was asked", full, inputs, None
        top_left = torch.ones(p.T_q, p.T_kv, dtype=torch.bool, device=inputs.q.device).tril()
        if p.T_q != p.T_kv and p.window is None:
            yield _TOP_LEFT, full, inputs, top_left
    elif mask is None:
        causal = replace(case, problem=p.with_(causal=True))
        yield "it is causal, where full attention was asked", causal, inputs, None
    if p.window is not None:
        wide = replace(case, problem=p.with_(window=None))
        yield "it ignores the window", wide, inputs, None
    if mask is not None:
        yield "it ignores the mask", case, inputs, None
        if mask.dtype == torch.bool:
            yield "its mask is inverted; True is wanted where a key is seen", case, inputs, ~mask
    if case.scale is not None:
        yield "it ignores the scale", replace(case, scale=None), inputs, mask
    if case.softcap is not None:
        yield "it ignores the softcap", replace(case, softcap=None), inputs, mask
    if 1 < p.H_kv < p.H:
        each, tiles = replace(case, problem=p.with_(H_kv=p.H)), (1, p.H // p.H_kv, 1, 1)
        tiled = replace(inputs, k=inputs.k.repeat(tiles), v=inputs.v.repeat(tiles))
        sentence = "its query head h reads kv head h % H_kv; h // (H / H_kv) is wanted"
        yield sentence, each, tiled, mask

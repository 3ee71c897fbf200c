"""What a wrong output is instead: the right answer to another question, told in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from impls.interface.check import check_output
from impls.interface.conformance_cases import Case
from impls.interface.inputs import Inputs
from impls.interface.reference import reference

_TOP_LEFT = (
    "its causal mask is aligned to the top left; the bottom right is wanted: "
    "query i sees keys j ≤ i + T_kv − T_q"
)
_WINDOW = (
    "its window is one key {} than asked: the last `window` keys are wanted, the query's own among "
    "them (FlashAttention's window_size counts those before it)"
)
_LEAK = "its sequences see one another, where each attends within itself"
_SWAPPED = (
    "it takes (B, T, H, d) where (B, H, T, d) is wanted: give it q.transpose(1, 2), k and v alike, "
    "and return its output.transpose(1, 2)"
)


class _Mistake(NamedTuple):
    """What a kernel may have computed instead: this case, of these inputs, under this mask.

    `is_swapped`: its second and third dimensions are the other way round.
    """

    sentence: str
    case: Case
    inputs: Inputs
    mask: torch.Tensor | None = None
    is_swapped: bool = False


def mistaken_for(
    case: Case, inputs: Inputs, mask: torch.Tensor | None, out: torch.Tensor
) -> list[str]:
    """The usual mistake of which `out` is the exact result, as a sentence; none where of none."""
    for mistake in _mistakes(case, inputs, mask):
        other = mistake.case
        instead = reference(
            mistake.inputs,
            other.problem,
            mask=mistake.mask,
            scale=other.scale,
            softcap=other.softcap,
            gradients=False,
        )
        is_turned = mistake.is_swapped and isinstance(out, torch.Tensor) and out.ndim == 4
        if check_output(out.transpose(1, 2) if is_turned else out, None, None, instead).ok:
            return [mistake.sentence]
    return []


def _mistakes(case: Case, inputs: Inputs, mask: torch.Tensor | None) -> Iterator[_Mistake]:
    p = case.problem
    full = replace(case, problem=p.with_(causal=False, window=None))
    if p.lengths is not None:
        yield _Mistake(_LEAK, replace(case, problem=p.joined), inputs)
    if p.causal:
        yield _Mistake("it is not causal, where causal was asked", full, inputs)
        top_left = torch.ones(p.T_q, p.T_kv, dtype=torch.bool, device=inputs.q.device).tril()
        if p.T_q != p.T_kv and p.window is None and p.lengths is None:
            yield _Mistake(_TOP_LEFT, full, inputs, top_left)
    elif mask is None:
        causal = replace(case, problem=p.with_(causal=True))
        yield _Mistake("it is causal, where full attention was asked", causal, inputs)
    if p.window is not None:
        wide = replace(case, problem=p.with_(window=None))
        yield _Mistake("it ignores the window", wide, inputs)
        for window, word in ((p.window + 1, "wider"), (p.window - 1, "narrower")):
            if window:
                other = replace(case, problem=p.with_(window=window))
                yield _Mistake(_WINDOW.format(word), other, inputs)
    if mask is not None:
        yield _Mistake("it ignores the mask", case, inputs)
        if mask.dtype == torch.bool:
            sentence = "its mask is inverted; True is wanted where a key is seen"
            yield _Mistake(sentence, case, inputs, ~mask)
    if case.scale is not None:
        yield _Mistake("it ignores the scale", replace(case, scale=None), inputs, mask)
    if case.softcap is not None:
        yield _Mistake("it ignores the softcap", replace(case, softcap=None), inputs, mask)
    if 1 < p.H_kv < p.H:
        each, tiles = replace(case, problem=p.with_(H_kv=p.H)), (1, p.H // p.H_kv, 1, 1)
        tiled = replace(inputs, k=inputs.k.repeat(tiles), v=inputs.v.repeat(tiles))
        sentence = "its query head h reads kv head h % H_kv; h // (H / H_kv) is wanted"
        yield _Mistake(sentence, each, tiled, mask)
    if mask is None and p.T_q == p.T_kv and p.lengths is None and not p.is_empty:
        yield _swapped(case, inputs)


def _swapped(case: Case, inputs: Inputs) -> _Mistake:
    """Heads attend to one another, within each token: every shape is as it should be."""
    p = case.problem
    problem = p.with_(T_q=p.H, T_kv=p.H_kv, H=p.T_q, H_kv=p.T_kv)
    turned = Inputs(*(t.transpose(1, 2) for t in (inputs.q, inputs.k, inputs.v, inputs.d_out)))
    return _Mistake(_SWAPPED, replace(case, problem=problem), turned, is_swapped=True)

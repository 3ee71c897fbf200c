"""A kernel brought by a string: `package.module:function` or `path/to/file.py:function`.

A brought kernel takes tensors as the interface does, q (B, H, T_q, d_h), and of the keywords
`causal, window, mask, scale, softcap` those it knows: `attention(q, k, v, causal=False)` will do.
What its signature lacks is a reason against a problem, never an error; `**kwargs` means all.
Attributes set on the function say what a signature cannot:

    attention.lse = attention_with_lse    # the same arguments → (out, lse (B, H, T_q) float32)
    attention.passes = ("forward",)       # it has no backward; by default autograd is its backward
    attention.devices = ("cuda",)         # and, named as in Capabilities: dtypes, layouts, gqa,
                                          # max_d_h, d_h_multiple_of, d_v_may_differ,
                                          # causal_rectangular
    attention.synchronize = wait          # it is asynchronous; called without arguments
    attention.prepare = build             # (problem, device) → forward(q, k, v), outside the clock
    attention.runs = ("my_kernel",)       # names, one of which a profile of the call must show
    attention.summary = "one line"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from impls.interface import torch_state
from impls.interface.attention import NEEDS, Capabilities, Implementation, Unsupported
from impls.interface.named_object import named_object
from impls.interface.problem import Problem

_KEYWORDS: dict[str, Any] = {
    "causal": False,
    "window": None,
    "mask": None,
    "scale": None,
    "softcap": None,
}
_TUPLES = ("devices", "dtypes", "layouts", "passes")
_VALUES = ("gqa", "max_d_h", "d_h_multiple_of", "d_v_may_differ", "causal_rectangular")
_GENERIC = ("attention", "attend", "attn", "forward", "fwd", "kernel", "main", "mha", "run", "sdpa")


def is_brought(implementation: Implementation) -> bool:
    """Whether it came in by a string, from outside this checkout's own."""
    return bool(implementation.source) and not implementation.source.startswith("impls/")


def bring(text: str, name: str | None = None) -> Implementation:
    """The implementation behind `text`, a path being relative to the current folder.

    Its name is `name`, or the function's, or `<file>_<function>` where the function's says nothing
    ("attention", "forward"). An `Implementation` found there is taken as it is. What importing it
    sets of torch for all, a default dtype or a number of threads, does not hold: it is put back.

    Raises:
        ValueError: there is no such file, module or function, it is not callable with (q, k, v),
            or importing it failed; the message tells the file and line.
    """
    with torch_state.kept():
        found, stem = named_object(text)
    place, _, attribute = text.rpartition(":")
    if isinstance(found, Implementation):
        return replace(found, source=text, name=name or found.name)
    if not callable(found):
        raise ValueError(
            f'"{attribute}" in {place} is of type {type(found).__name__}, not a function'
        )
    last = attribute.rpartition(".")[2]
    default_name = f"{stem}_{last}" if last in _GENERIC else last
    return _described(found, name or default_name, text)


def _described(function: Callable[..., Any], name: str, text: str) -> Implementation:
    keywords = _keywords_of(function, text)
    lacking = tuple(word for word in _KEYWORDS if word not in keywords)
    with_lse = getattr(function, "lse", None)
    fields: dict[str, Any] = {
        word: _as_tuple(getattr(function, word)) for word in _TUPLES if hasattr(function, word)
    }
    fields |= {word: getattr(function, word) for word in _VALUES if hasattr(function, word)}

    like_causal = next((n for n in _names_of(function) if "causal" in n), None)

    def further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
        asked = {"causal": problem.causal, "window": problem.window is not None}
        lacks = [_lacks(word) for word in lacking if asked.get(word, word in needs)]
        if "causal" in lacking and problem.causal and like_causal:
            lacks.append(f"a flag that it calls `{like_causal}` is given as `causal`")
        return lacks

    return Implementation(
        name=name,
        forward=_adapted(function, keywords, lacking),
        summary=getattr(function, "summary", f"brought by {text}"),
        capabilities=Capabilities(
            needs=tuple(n for n in NEEDS if n not in lacking and (n != "lse" or with_lse)),
            causal="causal" not in lacking,
            window="window" not in lacking,
            further=further,
            **fields,
        ),
        forward_with_lse=with_lse and _adapted(with_lse, _keywords_of(with_lse, text), lacking),
        prepare=getattr(function, "prepare", None),
        runs=_as_tuple(getattr(function, "runs", ())),
        synchronize=getattr(function, "synchronize", None),
        source=text,
    )


def _names_of(function: Callable[..., Any]) -> list[str]:
    call = function.forward if isinstance(function, torch.nn.Module) else function
    return list(inspect.signature(call).parameters)


def _keywords_of(function: Callable[..., Any], text: str) -> dict[str, bool]:
    """The interface's keywords that the function takes, and whether it must be given each."""
    if inspect.isclass(function):
        raise ValueError(f'"{text}" is a class: give a function (q, k, v, …) -> out or an instance')
    call = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        raise ValueError(
            f'"{text}" shows no signature: wrap it in a function (q, k, v, …)'
        ) from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(positional) < 3 and not takes_any:
        raise ValueError(f'"{text}" takes {len(positional)} arguments: it must take (q, k, v, …)')
    others = positional[3:] + [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    required = {p.name: p.default is p.empty for p in others}
    if "causal" in required:
        # Its own default may be either: what is asked is always said.
        required["causal"] = True
    if strange := [n for n, must in required.items() if must and n not in _KEYWORDS]:
        raise ValueError(
            f'"{text}" must be given {", ".join(strange)}, which the interface does not have: '
            f"it has {', '.join(_KEYWORDS)}"
        )
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {word: required.get(word, False) for word in _KEYWORDS}
    return {word: must for word, must in required.items() if word in _KEYWORDS}


def _adapted(
    function: Callable[..., Any], keywords: dict[str, bool], lacking: tuple[str, ...]
) -> Callable[..., Any]:
    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, /, **arguments: Any) -> Any:
        # A keyword at its neutral value is left out, so that the kernel's own default holds.
        asked = {w: a for w, a in arguments.items() if a is not _KEYWORDS[w]}
        if refused := [_lacks(word) for word in asked if word in lacking or word not in keywords]:
            raise Unsupported(*refused)
        required = {w: _KEYWORDS[w] for w, must in keywords.items() if must}
        return function(q, k, v, **(required | asked))

    return forward


def _lacks(word: str) -> str:
    return f"its signature has no `{word}`"


def _as_tuple(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)

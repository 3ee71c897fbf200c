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

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from impls.interface.attention import NEEDS, Capabilities, Implementation, Unsupported
from impls.interface.failures import failures, told, where_in
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
_FORM = 'write "package.module:function" or "path/to/file.py:function"'


def bring(text: str, name: str | None = None) -> Implementation:
    """The implementation behind `text`, a path being relative to the current folder.

    Its name is `name`, or the function's, or `<file>_<function>` where the function's says nothing
    ("attention", "forward"). An `Implementation` found there is taken as it is.

    Raises:
        ValueError: there is no such file, module or function, it is not callable with (q, k, v),
            or importing it failed; the message tells the file and line.
    """
    place, has_function, attribute = text.rpartition(":")
    if not has_function or not place or not attribute:
        raise ValueError(f'"{text}" names no function: {_FORM}')
    module, stem = _module(place, text)
    found = _attribute(module, attribute, place)
    if isinstance(found, Implementation):
        return replace(found, source=text, name=name or found.name)
    if not callable(found):
        raise ValueError(f'"{attribute}" in {place} is a {type(found).__name__}, not a function')
    last = attribute.rpartition(".")[2]
    default_name = f"{stem}_{last}" if last in _GENERIC else last
    return _described(found, name or default_name, text)


def _module(place: str, text: str) -> tuple[ModuleType, str]:
    if not (place.endswith(".py") or "/" in place):
        # Appended, not put first: what the user has installed keeps its meaning.
        if str(Path.cwd()) not in sys.path and "" not in sys.path:
            sys.path.append(str(Path.cwd()))
        return _imported(place, text), place.rpartition(".")[2]
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ValueError(f"no file {path}{_did_you_mean(path.name, beside)}")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    return _loaded(path), path.stem


def _imported(place: str, text: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # Only the module asked for: one that it imports itself is its own error, told below.
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise ValueError(f'no module "{error.name}" for "{text}": {_FORM}') from None
        raise ValueError(
            f"importing {place} failed at {where_in(error, None)}: {told(error)}"
        ) from error
    except failures() as error:
        raise ValueError(
            f"importing {place} failed at {where_in(error, None)}: {told(error)}"
        ) from error


def _loaded(path: Path) -> ModuleType:
    """The module of a file; run once for each content, as an import would."""
    state = path.stat()
    key = hashlib.sha256(f"{path}|{state.st_mtime_ns}|{state.st_size}".encode()).hexdigest()[:12]
    module_name = f"brought_{path.stem}_{key}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Registered first: dataclasses and Triton look their module up while the file runs.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except failures() as error:
        del sys.modules[module_name]
        raise ValueError(
            f"importing {path} failed at {where_in(error, path)}: {told(error)}"
        ) from error
    return module


def _attribute(module: ModuleType, attribute: str, place: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [n for n, value in vars(found).items() if callable(value) and n[0] != "_"]
            raise ValueError(f'{place} has no "{part}"{_did_you_mean(part, names)}')
        found = getattr(found, part)
    return found


def _did_you_mean(wrong: str, known: list[str]) -> str:
    close = difflib.get_close_matches(wrong, known, n=1)
    if close:
        return f': did you mean "{close[0]}"?'
    return f": it has {', '.join(sorted(known)[:8])}" if known else ""


def _described(function: Callable[..., Any], name: str, text: str) -> Implementation:
    keywords = _keywords_of(function, text)
    lacking = tuple(word for word in _KEYWORDS if word not in keywords)
    with_lse = getattr(function, "lse", None)
    fields: dict[str, Any] = {
        word: _as_tuple(getattr(function, word)) for word in _TUPLES if hasattr(function, word)
    }
    fields |= {word: getattr(function, word) for word in _VALUES if hasattr(function, word)}

    def further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
        asked = {"causal": problem.causal, "window": problem.window is not None}
        return [_lacks(word) for word in lacking if asked.get(word, word in needs)]

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

"""How an implementation uses torch.compile: for one problem at a time, never silently eager."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch

_latest: dict[Hashable, Compiled] = {}


class Compiled:
    """A function compiled for exact sizes; its first call compiles.

    Raises, when called:
        RuntimeError: the first call compiled nothing, so that it ran eagerly.
        torch._dynamo.exc.FailOnRecompileLimitHit: sizes kept changing. Without `fullgraph` torch
            would go on eagerly from there (default: after 8), many times slower.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None) -> None:
        self._function = torch.compile(function, dynamic=False, fullgraph=True, options=options)
        self._is_proven = False

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns; see the class for what is raised."""
        if self._is_proven:
            return self._function(*arguments)
        before = compiled_graphs()
        with warnings.catch_warnings():
            # torch's compiler uses what torch itself deprecates; no concern of whoever measures.
            warnings.simplefilter("ignore", DeprecationWarning)
            result = self._function(*arguments)
        if compiled_graphs() == before:
            raise RuntimeError("torch.compile compiled nothing and ran eagerly: is it disabled?")
        self._is_proven = True
        return result


def compiled_graphs() -> int:
    """How many graphs dynamo has handed to a compiler in this process."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def compile_afresh(function: Callable[..., Any], options: dict[str, Any] | None = None) -> Compiled:
    """`function` compiled with dynamo's caches emptied: earlier problems use up no limit.

    What was compiled before still works and compiles again when called.
    """
    torch._dynamo.reset()
    _latest.clear()
    return Compiled(function, options)


def compiled_for(
    key: Hashable, build: Callable[[], Callable[..., Any]], options: dict[str, Any] | None = None
) -> Compiled:
    """The function that `build` makes, compiled; kept until another key is asked for."""
    if key not in _latest:
        compiled = compile_afresh(build(), options)
        _latest[key] = compiled
    return _latest[key]


def layout_key(*tensors: torch.Tensor | None) -> Hashable:
    """What torch.compile specialises on: shape, stride, dtype, device and need of gradients."""
    return (
        torch.is_grad_enabled(),
        *(
            t if t is None else (t.shape, t.stride(), t.dtype, t.device, t.requires_grad)
            for t in tensors
        ),
    )


def compiler_missing(device: str) -> list[str]:
    """Reasons why torch.compile cannot make code for `device`, from what is installed."""
    if device == "cuda":
        missing = importlib.util.find_spec("triton") is None
        return ["triton is not installed: torch.compile needs it on cuda"] if missing else []
    compiler = os.environ.get("CXX", "g++")
    return [] if shutil.which(compiler) else ["no C++ compiler found: apt install g++"]

"""What an exception means for a cell: its status and the reason people read."""

from __future__ import annotations

import torch

from impls.interface.attention import Unsupported

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")
_NO_KERNEL = ("no available kernel", "no viable backend")


class CompileTimeout(RuntimeError):
    """A compilation took longer than its limit."""


class SilentFallback(RuntimeError):
    """Another kernel ran than the one that was asked for."""


def classify(error: BaseException) -> tuple[str, str]:
    """The status of a cell whose call raised, and why in one line.

    Triton's OutOfResources (shared memory, registers) is known by its class's name: the kernel
    does not fit this device, which no smaller batch would change, so it is "unsupported".
    """
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 300 else text[:297] + "…"
    lowered = text.lower()
    if isinstance(error, Unsupported):
        return "unsupported", text
    if isinstance(error, CompileTimeout):
        return "timeout", text
    if any(cls.__name__ == "OutOfResources" for cls in type(error).__mro__):
        return "unsupported", f"resources: {text}"
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "oom", text
    if isinstance(error, RuntimeError):
        if any(words in lowered for words in _OUT_OF_MEMORY):
            return "oom", text
        if any(words in lowered for words in _NO_KERNEL):
            return "unsupported", text
    return "error", f"{type(error).__name__}: {text}"

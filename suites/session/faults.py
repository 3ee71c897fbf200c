"""What an exception means for a cell: its status and the reason people read."""

from __future__ import annotations

import errno
import unittest
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from impls.interface.attention import Unsupported
from impls.interface.failures import message_of, told

# As torch's allocators, CUDA, cuBLAS, cuDNN, HIP, C++ and the operating system say it.
_OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory"),
    *("alloc_failed", "allocation_failed", "outofmemory", "memoryallocation"),
    *("bad_alloc", "bad allocation", "failed to allocate memory", "unable to allocate"),
)
# As Triton, CUDA and torch's compiler say that a kernel does not fit this device, one calling it
# running out of memory.
_NO_RESOURCES = ("out of resource", "too many resources requested")
_NO_KERNEL = ("no available kernel", "no viable backend")


class CompileTimeout(RuntimeError):
    """A compilation took longer than its limit."""


class SilentFallback(RuntimeError):
    """Another kernel ran than the one that was asked for."""


class ChangedTorch(RuntimeError):
    """A kernel changed a setting of torch that every other cell would have felt."""


class EndedPytest(RuntimeError):
    """A kernel raised what pytest takes for its own: the cell's end unseen, or the session's."""


_ENDS = (pytest.exit.Exception, pytest.skip.Exception, pytest.fail.Exception, unittest.SkipTest)


@contextmanager
def kept_from_pytest() -> Iterator[None]:
    """Within it a kernel's `pytest.skip` or `pytest.exit` is an error like any other.

    Raises:
        EndedPytest: in its place.
    """
    try:
        yield
    except _ENDS as error:
        raise EndedPytest(f"raised {told(error)}") from None


def classify(error: BaseException) -> tuple[str, str]:
    """The status of a cell whose call raised, and why in one line.

    Triton's OutOfResources (shared memory, registers) is known by its class's name: the kernel
    does not fit this device, which no smaller batch would change, so it is "unsupported". A
    compiler that wraps an error in one of its own keeps the meaning of what it wraps.
    """
    told = [_classified(each) for each in _chain(error)]
    return next((one for one in told if one[0] != "error"), told[0])


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it carries: torch's compilers' `inner_exception`, or its cause."""
    chain: list[BaseException] = []
    following: object = error
    while isinstance(following, BaseException) and following not in chain:
        chain.append(following)
        following = getattr(following, "inner_exception", None) or following.__cause__
    return chain


def _classified(error: BaseException) -> tuple[str, str]:
    text = " ".join(message_of(error).split()) or type(error).__name__
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
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return "oom", text
    if isinstance(error, RuntimeError):
        if any(words in lowered for words in _NO_RESOURCES):
            return "unsupported", f"resources: {text}"
        if any(words in lowered for words in _OUT_OF_MEMORY):
            return "oom", text
        if any(words in lowered for words in _NO_KERNEL):
            return "unsupported", text
    return "error", f"{type(error).__name__}: {text}"

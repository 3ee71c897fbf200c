"""What an exception of a kernel means for its cell."""

from __future__ import annotations

import errno

import pytest
import torch

from impls.interface.attention import Unsupported
from impls.interface.failures import failures, told
from suites.session.faults import CompileTimeout, classify

NO_RESOURCES = ("unsupported", "resources: ")


class OutOfResources(Exception):
    """As Triton's, known by its name."""


class CompilerError(RuntimeError):
    """As torch's compilers raise: the error they met is inside."""

    def __init__(self, inner: BaseException) -> None:
        super().__init__(f"{type(inner).__name__}: {inner}")
        self.inner_exception = inner


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("wanted 3 GiB"),
        MemoryError(),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("x. CUDA out of memory. Tried to allocate"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
        RuntimeError("HIP error: hipErrorOutOfMemory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("Failed to allocate memory for requested buffer of size 9"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        CompilerError(MemoryError("no room for the autotuner")),
    ],
    ids=repr,
)
def test_every_way_of_running_out_of_memory_is_oom(error):
    status, reason = classify(error)
    assert status == "oom" and reason


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OutOfResources("shared memory"), "unsupported", "resources: shared memory"),
        (CompilerError(OutOfResources("registers")), "unsupported", "resources: registers"),
        (RuntimeError("CUDA error: too many resources requested for launch"), *NO_RESOURCES),
        (RuntimeError("No valid triton configs. OutOfMemoryError: out of resource"), *NO_RESOURCES),
        (CompilerError(CompileTimeout("took 9 s")), "timeout", "took 9 s"),
        (CompilerError(Unsupported("no window")), "unsupported", "no window"),
        (RuntimeError("No available kernel. Aborting"), "unsupported", "No available kernel"),
        (RuntimeError("Register allocation failed with register count of '64'"), "error", "64"),
        (RuntimeError("No viable backend for it"), "unsupported", "No viable backend"),
        (ValueError("no such shape"), "error", "ValueError: no such shape"),
        (ValueError("out of memory of the past"), "error", "ValueError"),
        (OSError(errno.ENOENT, "no file"), "error", "no file"),
        (SystemExit(3), "error", "SystemExit: 3"),
        (AssertionError(), "error", "AssertionError"),
    ],
    ids=repr,
)
def test_other_exceptions_keep_their_meaning(error, status, said):
    found, reason = classify(error)
    assert found == status and said in reason


class Mute(Exception):
    """One whose message cannot be had."""

    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [Mute(), pytest.skip.Exception("nah"), GeneratorExit(), BaseExceptionGroup("g", [Mute()])],
    ids=lambda one: type(one).__name__,
)
def test_whatever_a_kernel_raises_is_a_failure_of_its_own(error):
    try:
        raise error
    except failures() as caught:
        assert classify(caught)[0] == "error" and told(caught).startswith(type(error).__name__)


def test_an_interrupt_is_no_failure():
    assert not issubclass(KeyboardInterrupt, failures())


def test_an_error_that_is_its_own_cause_is_told_once():
    error = ValueError("turtles")
    error.__cause__ = error
    assert classify(error) == ("error", "ValueError: turtles")


def test_the_cause_of_an_error_tells_what_it_means():
    error = ValueError("the plan failed")
    error.__cause__ = torch.OutOfMemoryError("wanted 3 GiB")
    assert classify(error) == ("oom", "wanted 3 GiB")

"""What each operator of one call is given and gives: bytes of its tensors, pages it made."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from impls.interface.failures import failures

_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True)
class Dispatched:
    """One operator that was dispatched.

    `n_bytes` counts each tensor that goes in or comes out once, as much of it as there is in
    memory. `new_bytes` are those of the pages the system had to make while it ran.
    """

    name: str
    n_bytes: int
    new_bytes: int


def dispatched(call: Callable[[], object]) -> list[Dispatched] | None:
    """Make one call, and note what it dispatches; None where it cannot be made so."""
    noting = _Noting()
    with suppress(*failures()):
        with noting:
            call()
        return noting.found
    return None


class _Noting(TorchDispatchMode):
    """Sees each operator below autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Dispatched] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        before = _faults()
        out = func(*args, **kwargs)
        faults = _faults() - before
        tensors, is_view = list(_tensors((args, kwargs, out))), func.is_view
        self.found.append(
            Dispatched(
                func._schema.name,
                0 if is_view else _bytes(tensors),
                0 if is_view else faults * _PAGE_BYTES,
            )
        )
        return out


def _faults() -> int:
    """Minor page faults of this thread so far."""
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    return resource.getrusage(who).ru_minflt


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict):
        yield from _tensors(list(found.values()))
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _tensors(one)


def _bytes(tensors: list[torch.Tensor]) -> int:
    """Of each tensor once: what has the same place, sizes and strides is the same one."""
    alike = {(t.data_ptr(), t.shape, t.stride()): _in_memory(t) for t in tensors if t.numel()}
    return sum(alike.values())


def _in_memory(tensor: torch.Tensor) -> int:
    """A dimension of stride 0 is one element seen many times."""
    n = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        n *= size if stride else 1
    return n

"""Which kernels are compiled, for what and how: the command's options as jobs."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from impls.interface.static_kernel import (
    ELEMENT_BYTES,
    Build,
    StaticKernel,
    Target,
    static_kernels,
)
from suites.static.architectures import GATED, capability_of
from suites.static.job import Job

GATED_HEAD_SIZES = (64, 128)
GATED_DTYPES = ("bf16",)
# With `--all`, where it compiles.
_FURTHER = (120,)
# Names that every tile has, whatever its kernel calls its sides.
_SIDES = {"BLOCK_M": ("BLOCK_Q", "BLOCK_ROWS"), "BLOCK_N": ("BLOCK_KV",)}


@dataclass(frozen=True)
class Wanted:
    """What the user asked for; empty is the gate's set.

    Attributes:
        kernels: names of shipped ones, or "path/to/file.py:kernel".
        sweep: values by the names of a block's constants and options.
        signature, constants: of a kernel that is brought.
    """

    archs: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    head_sizes: tuple[int, ...] = ()
    everything: bool = False
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    signature: str = ""
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def brought(self) -> list[str]:
        """Those kernels that are not ours."""
        return [kernel for kernel in self.kernels if ":" in kernel]

    @property
    def capabilities(self) -> tuple[int, ...]:
        """Of the architectures, in the order asked for.

        Raises:
            ValueError: one is not known.
        """
        if self.archs:
            return tuple(dict.fromkeys(map(capability_of, self.archs)))
        return (*GATED, *(_FURTHER if self.everything else ()))


@dataclass(frozen=True)
class Selected:
    """The jobs, and what was left out of them, in words."""

    jobs: tuple[Job, ...]
    left_out: tuple[str, ...] = ()


def select(wanted: Wanted) -> Selected:
    """All jobs, each once, those that take the longest first.

    Raises:
        ValueError: a name is not known, or nothing fits.
    """
    capabilities = wanted.capabilities
    jobs = [job for text in wanted.brought for job in _of_brought(text, capabilities, wanted)]
    left_out: list[str] = []
    if not wanted.brought or len(wanted.brought) < len(wanted.kernels):
        for kernel in _shipped(wanted):
            found = list(_of_shipped(kernel, capabilities, wanted, left_out))
            jobs += found
    if not jobs:
        raise ValueError("; ".join(["nothing to compile", *dict.fromkeys(left_out)]))
    # The newest architectures and largest tiles compile longest: begun last, one would end alone.
    ordered = sorted(jobs, key=lambda j: (-j.capability, -(j.d_h or 0)))
    return Selected(tuple(ordered), tuple(dict.fromkeys(left_out)))


def _shipped(wanted: Wanted) -> list[StaticKernel]:
    known = static_kernels()
    names = [kernel for kernel in wanted.kernels if ":" not in kernel]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"? ' if close else ""
            raise ValueError(
                f'no kernel "{name}": {hint}known: {", ".join(known)}; '
                "your own is path/to/file.py:kernel"
            )
    for dtype in wanted.dtypes:
        if dtype not in ELEMENT_BYTES:
            raise ValueError(f'no dtype "{dtype}": one of {", ".join(ELEMENT_BYTES)}')
    return [kernel for name, kernel in known.items() if not names or name in names]


def _of_shipped(
    kernel: StaticKernel, capabilities: Iterable[int], wanted: Wanted, left_out: list[str]
) -> Iterable[Job]:
    dtypes = wanted.dtypes or (kernel.dtypes if wanted.everything else GATED_DTYPES)
    sizes = wanted.head_sizes or (kernel.head_sizes if wanted.everything else GATED_HEAD_SIZES)
    variants = kernel.variants if wanted.everything else kernel.variants[:1]
    for dtype in dtypes:
        if dtype not in kernel.dtypes:
            left_out.append(f"{kernel.name} is not made for {dtype}")
            continue
        for capability, d_h, variant in itertools.product(capabilities, sizes, variants):
            default = kernel.build(Target(capability, dtype, d_h, {}, variant))
            if default is None:
                # A variant may be for one dtype or architecture alone; a kernel says so.
                if variant == variants[0]:
                    left_out.append(f"{kernel.name} is not shipped for sm_{capability}")
                continue
            names = {name: _own_name(name, default) for name in wanted.sweep}
            if foreign := [name for name, own in names.items() if own is None]:
                left_out.append(
                    f"{kernel.name} has no {', '.join(foreign)}: its block has "
                    f"{', '.join(default.block)}"
                )
                continue
            for values in itertools.product(*wanted.sweep.values()):
                block = dict(zip(filter(None, names.values()), values, strict=True))
                build = kernel.build(Target(capability, dtype, d_h, block, variant))
                if build is not None:
                    is_default = build.block == default.block
                    yield Job(kernel.kernel, capability, dtype, d_h, build, is_default)


def _own_name(name: str, build: Build) -> str | None:
    """What the kernel calls it; None where its block has nothing of the kind."""
    return next((own for own in (name, *_SIDES.get(name, ())) if own in build.block), None)


def _of_brought(text: str, capabilities: Iterable[int], wanted: Wanted) -> Iterable[Job]:
    for capability in capabilities:
        for values in itertools.product(*wanted.sweep.values()):
            yield Job(
                text,
                capability,
                signature=wanted.signature,
                constants=wanted.constants,
                block=dict(zip(wanted.sweep, values, strict=True)),
            )

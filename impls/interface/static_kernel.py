"""How a Triton kernel is compiled ahead of time: what its static profile needs to know of it.

A package of kernels has, for each kernel, a module `static_<kernel>.py` with a `StaticKernel` in
it; `static_kernels` finds them all. Neither needs torch or triton.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import impls

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
HEAD_SIZES = (40, 64, 80, 96, 128, 160, 192, 256)


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled for.

    Attributes:
        capability: 90 for sm_90.
        dtype: of the tensors, one of `ELEMENT_BYTES`.
        block: what to take instead of the default block's, by name: {"num_warps": 4}.
        variant: one of the kernel's `variants`.
    """

    capability: int
    dtype: str
    d_h: int
    block: Mapping[str, int]
    variant: Mapping[str, Any]

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of the tensors."""
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Build:
    """One compilation, as the launcher would ask for it with contiguous tensors.

    What the compiled code is held against is that of one iteration of the hot loop by one block:
    the loop that goes through full tiles.

    Attributes:
        block: the block's constants, and the options "num_warps", "num_stages", by name.
        constants: the kernel's other compile-time arguments.
        types: of arguments that are not as their names say: `p_…` points to the tensors' dtype,
            all others are "i32". {"p_lse": "*fp32", "scale": "fp32"}.
        unaligned: pointers and strides that are not multiples of 16.
        products: (M, N, K) of every matrix product, as it is multiplied, padding included.
        uses_matrix_units: for these; False for float32 in full precision.
        useful_flop: of these products, without padding. None: all.
        exponentials: one each element of the tile of scores. None: not said.
        is_masked: it may select: the only loop masks what needs no mask.
        may_spill: spills in it are known and accepted.
        dram_bytes: from device memory, where that is what the kernel is judged by. None where its
            tiles come from L2: then it is judged by its products.
        bulk_bytes: that bulk copies (TMA) bring to shared memory: the code does not print them.
    """

    block: Mapping[str, int]
    constants: Mapping[str, Any]
    types: Mapping[str, str]
    unaligned: tuple[str, ...] = ()
    products: tuple[tuple[int, int, int], ...] = ()
    uses_matrix_units: bool = True
    useful_flop: int | None = None
    exponentials: int | None = None
    is_masked: bool = False
    may_spill: bool = False
    dram_bytes: int | None = None
    bulk_bytes: int = 0

    @property
    def flop(self) -> int:
        """Of one iteration, as multiplied."""
        return sum(2 * M * N * K for M, N, K in self.products)


@dataclass(frozen=True)
class StaticKernel:
    """One kernel and all the ways in which it is shipped.

    Attributes:
        kernel: "package.module:function"; the module imports triton.
        build: the compilation for a target; None where the kernel is not shipped for it.
        variants: the compile-time switches, the first for the gate, the rest with `--all`.
    """

    kernel: str
    build: Callable[[Target], Build | None]
    variants: tuple[Mapping[str, Any], ...] = ({},)
    dtypes: tuple[str, ...] = ("bf16", "fp16", "fp32")
    head_sizes: tuple[int, ...] = HEAD_SIZES

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.kernel.rpartition(":")[2]


def static_kernels() -> dict[str, StaticKernel]:
    """Every `StaticKernel` of a module `static_….py` in a package of `impls`, by name.

    Raises:
        ValueError: two have one name.
    """
    found: dict[str, StaticKernel] = {}
    for folder in sorted(Path(path) for path in impls.__path__):
        for package in sorted(p.parent for p in folder.glob("*/__init__.py")):
            for info in pkgutil.iter_modules([str(package)]):
                if info.name.startswith("static_") and package.name != "interface":
                    module = importlib.import_module(f"impls.{package.name}.{info.name}")
                    for value in vars(module).values():
                        if isinstance(value, StaticKernel):
                            if value.name in found:
                                raise ValueError(f'two static kernels are called "{value.name}"')
                            found[value.name] = value
    return found

"""Running the kernels in Triton's interpreter: when, what bars it, and what it gets wrong.

The interpreter runs a kernel program by program in numpy, on CPU tensors. It proves values, masks
and offsets; it cannot see races, registers, shared memory or what a compiler makes of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections.abc import Iterator
from typing import Any

import torch

_YES = ("1", "true", "yes", "on", "y")


def is_interpreting() -> bool:
    """Whether this process interprets: Triton reads TRITON_INTERPRET when imported."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in _YES


def reasons_against_interpreting() -> list[str]:
    """Why kernels cannot be interpreted here; empty when they can."""
    try:
        import triton
    except ImportError as error:
        if error.name != "triton":
            raise
        return ["triton is not installed"]
    import numpy

    return _reasons_against_versions(triton.__version__, numpy.__version__)


def _reasons_against_versions(triton_version: str, numpy_version: str) -> list[str]:
    if _major_minor(triton_version) < (3, 7) and _major_minor(numpy_version) >= (2, 4):
        # https://github.com/triton-lang/triton/issues/9171, mended in 3.7 by its #9172.
        return [
            f"the interpreter of triton {triton_version} needs numpy < 2.4 "
            f'(here {numpy_version}): pip install "numpy<2.4"'
        ]
    return []


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@functools.cache
def mend_bf16() -> None:
    """Make the interpreter's bfloat16 right, once a process, where this Triton needs it.

    Up to 3.8 it multiplies the bit patterns of bfloat16 in tl.dot and cuts float32 off where it
    must round (https://github.com/triton-lang/triton/issues/11584); neither raises. Products are
    taken in float32, which is exact, and casts round to nearest even. Sums and products of
    bfloat16 outside tl.dot stay wrong: kernels widen first.
    """
    if bf16_is_mended_upstream():
        return
    import triton.language as tl
    import triton.runtime.interpreter as interpreter

    builder: Any = interpreter.InterpreterBuilder
    convert_otherwise = interpreter._convert_float
    dot_otherwise = builder.create_dot

    def convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.bfloat16 and target == tl.float32:
            return _bits_widened(data)
        if source == tl.float32 and target == tl.bfloat16:
            return _bits_rounded(data)
        return convert_otherwise(data, source, target, rounding)

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        values = _bits_widened(handle.data).view("float32")
        return interpreter.TensorHandle(values, tl.float32)

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot_otherwise(self, widened(a), widened(b), *rest)

    interpreter._convert_float = convert
    builder.create_dot = dot


@functools.cache
def bf16_is_mended_upstream() -> bool:
    """The interpreter's own bfloat16 is right: `mend_bf16` has become needless, remove it.

    Asked first by `mend_bf16` itself, so the answer is of the interpreter as installed.
    """
    from impls.triton_flash.canary import bf16_dot_and_cast

    # 1 + 3/256 lies between the bfloat16 neighbours 1 + 2/256 and 1 + 4/256: a tie, to even.
    values = torch.full((16, 16), 1.0 + 3 / 256)
    product, rounded = torch.empty(16, 16), torch.empty(16, 16, dtype=torch.bfloat16)
    ones = torch.ones(16, 16, dtype=torch.bfloat16)
    bf16_dot_and_cast[(1,)](ones, values, product, rounded)
    return bool((product == 16.0).all() and (rounded.float() == 1.0 + 4 / 256).all())


def _bits_widened(bits: Any) -> Any:
    """The bits of float32 with the value of these bits of bfloat16, as uint32."""
    import numpy

    return numpy.ascontiguousarray(bits).view(numpy.uint16).astype(numpy.uint32) << 16


def _bits_rounded(values: Any) -> Any:
    """The bits of bfloat16 nearest to float32 values, ties to even, as uint16."""
    import numpy

    bits = numpy.ascontiguousarray(values).view(numpy.uint32)
    odd = (bits >> 16) & 1
    rounded = ((bits + (0x7FFF + odd).astype(numpy.uint32)) >> 16).astype(numpy.uint16)
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000  # its mantissa must not round up to infinity
    return numpy.where(is_nan, numpy.uint16(0x7FC0), rounded)


@contextlib.contextmanager
def shuffled_grid(seed: int) -> Iterator[None]:
    """Within, programs along x run in an order drawn from `seed`: order must not matter."""
    import triton.runtime.interpreter as interpreter

    builder: Any = interpreter.InterpreterBuilder
    in_order = builder.set_grid_idx

    @functools.cache
    def order(n_programs: int) -> list[int]:
        programs = list(range(n_programs))
        random.Random(seed).shuffle(programs)
        return programs

    def shuffled(self: Any, x: int, y: int, z: int) -> None:
        in_order(self, order(self.grid_dim[0])[x], y, z)

    builder.set_grid_idx = shuffled
    try:
        yield
    finally:
        builder.set_grid_idx = in_order


def guarded(tensor: torch.Tensor, rows: int = 160, columns: int = 16) -> torch.Tensor:
    """The same (B, H, T, d) values amid NaN: reading outside shows up in the result.

    `rows` before and after every head's T rows, `columns` beside every row; the last dimension
    keeps stride 1.
    """
    B, H, T, d = tensor.shape
    room = tensor.new_full((B, H, T + 2 * rows, d + 2 * columns), float("nan"))
    inside = room[:, :, rows : rows + T, columns : columns + d]
    inside.copy_(tensor)
    return inside

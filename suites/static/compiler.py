"""Compiling a Triton kernel for a GPU that is not here; imports triton where it is used."""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from impls.interface.failures import failures
from impls.interface.static_kernel import Build
from suites.static.job import Toolchain

# The names of options of Triton's CUDA backend that belong to a block.
OPTIONS = ("num_warps", "num_stages", "maxnreg", "num_ctas")
_TYPES = re.compile(r"\*?(bf16|fp(16|32|64|8\w*)|[iu](1|8|16|32|64))$|tensordesc<.*>$")


class Refused(Exception):
    """The compiler's own words."""


class Misused(ValueError):
    """What was asked of a kernel does not fit it: names, types or constants."""


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel.

    Attributes:
        sass: as nvdisasm prints it.
        usage: `cuobjdump -res-usage`, of the kernel.
        dynamic_shared_bytes, tensor_memory_columns, scratch_bytes, warps: what Triton says that a
            launch of one block needs; `warps` after warp specialisation.
    """

    name: str
    sass: str
    usage: Mapping[str, int]
    dynamic_shared_bytes: int
    tensor_memory_columns: int
    scratch_bytes: int
    warps: int


def shipped_kernel(kernel: str) -> Any:
    """The function behind "package.module:function"."""
    module, _, name = kernel.partition(":")
    return getattr(importlib.import_module(module), name)


def compile_kernel(function: Any, build: Build, dtype: str | None, capability: int) -> Compiled:
    """The kernel as its launcher would have it compiled on such a device.

    Raises:
        Misused: the build does not fit the kernel's arguments.
        Refused: the compiler's message.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = [p.name for p in function.params]
    compile_time = [p.name for p in function.params if p.is_constexpr]
    values = {**build.constants, **build.block}
    options = {name: v for name, v in values.items() if name not in names}
    constants = {name: v for name, v in values.items() if name in names}
    _check_names(function.__name__, names, compile_time, constants, options)
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, p in enumerate(function.params):
        if p.name in constants:
            signature[p.name] = "constexpr"
            continue
        of = build.types.get(p.name) or (f"*{dtype}" if p.name.startswith("p_") else "i32")
        _check_type(p.name, of)
        signature[p.name] = of
        # As the launcher specialises: every pointer, and every integer that it looks at.
        is_free = p.do_not_specialize or p.do_not_specialize_on_alignment
        is_looked_at = of.startswith("*") or (of[0] in "iu" and not is_free)
        if is_looked_at and p.name not in build.unaligned:
            attributes[(i,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    try:
        kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except failures() as error:
        raise Refused(_message(error)) from error
    metadata = kernel.metadata
    sass, usage = _read(kernel.asm["cubin"], metadata.name)
    return Compiled(
        name=metadata.name,
        sass=sass,
        usage=usage,
        dynamic_shared_bytes=metadata.shared,
        tensor_memory_columns=getattr(metadata, "tmem_size", None) or 0,
        scratch_bytes=getattr(metadata, "global_scratch_size", None) or 0,
        warps=metadata.num_warps,
    )


def toolchain_of(capability: int) -> Toolchain:
    """The versions of Triton and of the ptxas it would take."""
    import triton
    from triton.backends.nvidia.compiler import get_ptxas_version

    told = re.search(r"V([\d.]+)", get_ptxas_version(capability))
    return Toolchain(triton.__version__, told[1] if told else "unknown")


def _message(error: BaseException) -> str:
    """What is wrong in the first line, then where: Triton shows the source first.

    An error in a function that the kernel calls is the cause of one that shows the call.
    """
    told = str(error).strip()
    while error.__cause__ is not None and type(error.__cause__).__module__.startswith("triton"):
        error = error.__cause__
        told = f"{str(error).strip()}\n{told}"
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    if len(lines) > 1 and re.match(r"at \d+:\d+:", lines[0]):
        return f"{lines[-1].strip()}\n{told}"
    return told or type(error).__name__


def _check_names(
    kernel: str,
    names: Sequence[str],
    compile_time: Sequence[str],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    if unknown := [name for name in options if name not in OPTIONS]:
        raise Misused(
            f"{kernel} has no {', '.join(unknown)}: its arguments are {', '.join(names)}, "
            f"the compiler's options {', '.join(OPTIONS)}"
        )
    if lacking := [name for name in compile_time if name not in constants]:
        raise Misused(f"{kernel} needs a value for {', '.join(lacking)} (tl.constexpr)")


def _check_type(name: str, of: str) -> None:
    if not _TYPES.match(of):
        raise Misused(f'{name}: "{of}" is no type: write *bf16, *fp32, i32, i64 or fp32')


def _read(cubin: bytes, name: str) -> tuple[str, dict[str, int]]:
    """SASS and the registers, stack and shared memory of the kernel `name`, by Triton's own tools.

    Raises:
        Refused: this Triton comes without them.
    """
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        sass = _output(tools / "nvdisasm", "-c", file)
        told = _output(tools / "cuobjdump", "-res-usage", file)
    found = re.search(rf"Function {re.escape(name)}:\s*\n\s*(.*)", told)
    if found is None:
        raise Refused(f"cuobjdump does not know {name}")
    usage = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", found[1])}
    return sass, usage


def _output(*command: Path | str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise Refused(f"this Triton has no {Path(command[0]).name}: install PyPI's") from None
    except subprocess.CalledProcessError as error:
        raise Refused(f"{Path(command[0]).name}: {error.stderr.strip()}") from error
    return done.stdout

"""A Triton kernel that a user brings: `path/to/file.py:kernel`, its types and its constants."""

from __future__ import annotations

import ast
from typing import Any

from impls.interface.named_object import named_object
from impls.interface.static_kernel import Build
from suites.static.compiler import OPTIONS, Misused
from suites.static.job import Job

# Divisibility as in `triton.tools.compile`: "*fp32:16". Allocators align, so it is the default.
_ALIGNED = "16"


def brought_kernel(text: str) -> Any:
    """The `@triton.jit` function behind `path/to/file.py:kernel` or `package.module:kernel`.

    Raises:
        Misused: there is none, or its file cannot be imported.
    """
    try:
        found, _ = named_object(text)
    except ValueError as error:
        raise Misused(str(error)) from error
    # Autotuners and heuristics hold the function they wrap.
    while not hasattr(found, "params") and hasattr(found, "fn"):
        found = found.fn
    if not hasattr(found, "params"):
        raise Misused(f"{text} is no Triton kernel: decorate it with @triton.jit")
    return found


def brought_build(function: Any, job: Job) -> Build:
    """The compilation that the user describes: `--signature`, `--constants`, a sweep's block.

    The signature has a type for each argument that is no constant, in their order or by name:
    "*fp32,*fp32,*fp32,i32" or "x=*fp32,n=i32". ":1" behind a type: not a multiple of 16.

    Raises:
        Misused: types and arguments do not match.
    """
    names = [p.name for p in function.params]
    values = {**job.constants, **job.block}
    block_names = {*job.block, *OPTIONS}
    lacking = [p.name for p in function.params if p.is_constexpr and p.name not in values]
    if lacking:
        words = " ".join(f"{name}=…" for name in lacking)
        raise Misused(f"{function.__name__} needs its constants: --constants {words}")
    typed = [name for name in names if name not in values]
    types, unaligned = _types(function.__name__, typed, job.signature)
    options = {"num_warps": 4, "num_stages": 3}
    block = {n: v for n, v in values.items() if n in block_names}
    return Build(
        block={**block, **{n: v for n, v in options.items() if n not in block}},
        constants={n: v for n, v in values.items() if n not in block_names},
        types=types,
        unaligned=unaligned,
        # Nothing was promised of it.
        is_masked=True,
        may_spill=True,
    )


def constants_of(text: str) -> dict[str, Any]:
    """Names and values of "BLOCK=1024,num_warps=8,CAUSAL=True".

    Raises:
        ValueError: a part is no assignment.
    """
    found: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.replace(" ", ",").split(","))):
        name, is_assigned, value = part.partition("=")
        if not is_assigned or not name.isidentifier():
            raise ValueError(f'"{part}" is no constant: write BLOCK=1024')
        found[name] = value_of(value)
    return found


def value_of(text: str) -> Any:
    """A number, True, False or None; else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _types(kernel: str, names: list[str], signature: str) -> tuple[dict[str, str], tuple[str, ...]]:
    parts = _split(signature)
    if any("=" in part for part in parts):
        given = dict(part.split("=", 1) for part in parts if "=" in part)
    else:
        given = dict(zip(names, parts, strict=False))
    wrong = [name for name in names if name not in given] + [n for n in given if n not in names]
    if wrong or len(parts) != len(given):
        raise Misused(
            f"{kernel} has {len(names)} arguments to be typed ({', '.join(names)}), "
            f'--signature "{signature}" has {len(parts)}: write --signature '
            f'"{",".join(_likely(name) for name in names)}", and constants with --constants'
        )
    types = {name: text.partition(":")[0].strip() for name, text in given.items()}
    alignments = {name: text.partition(":")[2].strip() for name, text in given.items()}
    return types, tuple(n for n, a in alignments.items() if a not in ("", _ALIGNED))


def _split(signature: str) -> list[str]:
    """At commas that stand outside of brackets: "tensordesc<bf16[64, 64]>, i32"."""
    parts, depth = [""], 0
    for letter in signature:
        depth += (letter in "<[") - (letter in ">]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _likely(name: str) -> str:
    """A guess for an example: sizes and strides are integers."""
    is_integer = name.lower().startswith(("n", "stride", "size", "m_", "k_"))
    return "i32" if is_integer else "*fp32"

"""What is to be compiled, as it is handed to the process that does it, and its identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from impls.interface.static_kernel import Build


@dataclass(frozen=True)
class Job:
    """One compilation.

    Attributes:
        kernel: "package.module:function", or "path/to/file.py:function" of one that was brought.
        build: of a shipped kernel.
        signature, constants: of one that was brought, as the user wrote them.
        block: by name, what a sweep takes; of a shipped kernel it is in `build` already.
    """

    kernel: str
    capability: int
    dtype: str | None = None
    d_h: int | None = None
    build: Build | None = None
    is_default: bool = False
    signature: str = ""
    constants: Mapping[str, Any] = field(default_factory=dict)
    block: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.kernel.rpartition(":")[2]

    @property
    def origin(self) -> str | None:
        """The file of a kernel that was brought."""
        return None if self.build is not None else self.kernel.rpartition(":")[0]

    @property
    def arch(self) -> str:
        """As Triton and the user write it."""
        return f"sm_{self.capability}"

    @property
    def what(self) -> str:
        """For a line of progress."""
        d_h = "" if self.d_h is None else f" d_h={self.d_h}"
        return f"{self.name} {self.arch}{d_h}{'' if self.dtype is None else f' {self.dtype}'}"


@dataclass(frozen=True)
class Toolchain:
    """What compiles: the version of Triton, and of the ptxas it takes for an architecture."""

    triton: str
    ptxas: str


def identity(
    job: Job, toolchain: Toolchain, constants: Mapping[str, Any], block: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that say which profile it is, "cell" being their hash."""
    fields = {
        "kernel": job.name,
        "arch": job.arch,
        "dtype": job.dtype,
        "d_h": job.d_h,
        "constants": dict(constants),
        "block": dict(block),
        "triton": toolchain.triton,
        "ptxas": toolchain.ptxas,
    }
    content = ["static", *fields.values()]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {"cell": hashlib.sha256(text.encode()).hexdigest()[:16], **fields}

"""What `ab` measures where nobody says: few cells, cheap and telling.

A launch costs three seconds before its first cell, so that the cells are few and small; each kind
of work is among them: full, causal on grouped heads, and one query against a long cache.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

LIMIT_S = 450.0
"""So long may these take where no other limit is given: the verdict is there within 8 minutes."""
ONE_LOOK_S = "0.4"
"""How long a cell is sampled in a launch at most; `--benchmark-max-time` says otherwise."""

_CPU_IMPLEMENTATIONS = ("naive", "chunked", "sdpa_flash")
_CPU = (
    "T=256,H=8,d_h=64",
    "T=200,H=8,H_kv=2,d_h=64,causal",
    "T_q=1,T_kv=2048,H=8,H_kv=2,d_h=64",
)
_CUDA_IMPLEMENTATIONS = ("naive", "chunked", "sdpa_flash", "triton_flash")
_CUDA = (
    "B=4,T=2048,H=16,d_h=64",
    "B=2,T=4000,H=16,H_kv=4,d_h=128,causal",
    "B=16,T_q=1,T_kv=8192,H=32,H_kv=8,d_h=128",
)
_SIZES = ("--problem", "--shapes")


def completed(
    selection: Sequence[str], suites: Sequence[str], python: str, *, has_own_kernels: bool
) -> tuple[list[str], bool]:
    """The selection with what it does not say; → and whether its cells are the default ones.

    `has_own_kernels`: the implementations of this checkout are meant where none is named.
    """
    chosen = list(selection)
    is_default = not suites and not any(_names(chosen, flag) for flag in _SIZES)
    if is_default:
        is_cuda = _is_cuda(chosen, python)
        if has_own_kernels and not _names(chosen, "--impl"):
            chosen += [
                "--impl",
                ",".join(_CUDA_IMPLEMENTATIONS if is_cuda else _CPU_IMPLEMENTATIONS),
            ]
        for problem in _CUDA if is_cuda else _CPU:
            chosen += ["--problem", problem]
    if suites and not _names(chosen, "--budget"):
        # Fifty launches of a longer one would take hours.
        chosen += ["--budget", "smoke"]
    if not _names(chosen, "--benchmark-max-time"):
        chosen += ["--benchmark-max-time", ONE_LOOK_S]
    if not _names(chosen, "--baseline"):
        # What is not asked for need not be measured: nobody looks at ratios between kernels.
        chosen += ["--baseline", "none"]
    return chosen, is_default


def _names(chosen: Sequence[str], flag: str) -> bool:
    return any(word == flag or word.startswith(f"{flag}=") for word in chosen)


def _is_cuda(chosen: Sequence[str], python: str) -> bool:
    """Whether the children will measure on a GPU; torch is asked only where there may be one."""
    for flag, device in pairwise(chosen):
        if flag == "--device" and device != "auto":
            return device == "cuda"
    if not Path("/dev/nvidiactl").exists():
        return False
    program = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([python, "-c", program], capture_output=True, check=False).returncode == 0

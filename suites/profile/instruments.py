"""What else may look inside a call: used where it is there, and told why where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from suites.profile.memory_counters import Counted, of_cpu, of_gpu
from suites.profile.profiled import Ready

NO_GPU = "no GPU"


@dataclass(frozen=True)
class Instrument:
    """A tool beside torch's profiler: what it left or told, or why it was not used."""

    name: str
    is_used: bool
    told: str


def memory_traffic(ready: Ready, arguments: Sequence[str]) -> Counted:
    """The bytes a call moved between memory and processor; see `memory_counters`."""
    return of_gpu(arguments) if ready.device == "cuda" else of_cpu(ready)


def proton(ready: Ready, folder: Path) -> Instrument:
    """Triton's profiler over some calls: DIR/proton.hatchet, for `proton-viewer`."""

    def unused(why: str) -> Instrument:
        return Instrument("proton", False, why)

    if ready.device != "cuda":
        return unused(NO_GPU)
    try:
        import triton.profiler as profiler
    except ImportError as error:
        return unused(str(error))
    try:
        profiler.start(str(folder / "proton"), hook="triton")
        ready.run(3)
        profiler.finalize()
    except RuntimeError as error:
        return unused(str(error).strip().splitlines()[0])
    return Instrument("proton", True, "proton.hatchet, for proton-viewer")


def call_for_ncu(ready: Ready) -> None:
    """One call that Nsight Compute is told of; what came before it is not counted."""
    torch.cuda.profiler.start()
    ready.run(1)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()

"""Published throughputs beside what a run measured, of one device, problem and pass.

`reference_rows.csv` has the rows as they were published, in TFLOP/s by the convention that their
authors count by, each with its source and how it was read: off a plot, out of a text or a CSV.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from impls.interface.cost import flop
from impls.interface.problem import Problem
from results.run import Run
from results.schema import Cell

FILE = Path(__file__).with_name("reference_rows.csv")
WITHIN = 0.15

# What here computes what was published; the words say how far it is the same code.
_COUNTERPARTS: dict[str, dict[str, str]] = {
    "flash_attention_2": {
        "flash_attn_2": "flash-attn 2 itself",
        "sdpa_flash": "the build of FlashAttention-2 in this torch",
        "xformers_flash": "the FlashAttention that xformers has",
    },
    "flash_attention_3": {
        "flash_attn_3": "flash-attn 3 itself",
        "xformers_flash": "the FlashAttention that xformers has",
    },
    "flash_attention_4": {"flash_attn_4": "flash-attn 4 itself"},
    "cudnn": {
        "sdpa_cudnn": "cuDNN through torch's SDPA",
        "transformer_engine": "cuDNN through Transformer Engine",
    },
    "standard_pytorch": {"naive": "our own plain formula"},
    "triton": {"triton_flash": "our own Triton kernel"},
    "triton_tutorial_06": {"triton_flash": "our own Triton kernel"},
}
_READ_FROM = {"plot": "read off a plot, some per cent", "text": "as written", "csv": "as tabled"}


class AcrossDevices(ValueError):
    """No published row is of the run's device: the message names both."""


@dataclass(frozen=True)
class Published:
    """One row as it was published; `flop_per_s` by `convention`."""

    gpu: str
    implementation: str
    problem: Problem
    pass_: str
    flop_per_s: float
    convention: str
    source: str
    read_from: str

    @property
    def time_s(self) -> float:
        """The time that the published throughput is of; it depends on no way of counting."""
        return flop(self.problem, self.pass_, self.convention) / self.flop_per_s


@dataclass(frozen=True)
class Reference:
    """A published row and the row of the run that stands beside it.

    `times` is measured / published throughput, above 1 where ours is faster, the FLOP being the
    same; None where nothing of the run is comparable. `differences` names those in method.
    """

    published: Published
    cell: Cell | None
    times: float | None
    differences: tuple[str, ...]

    @property
    def is_within(self) -> bool | None:
        """Whether they agree to ±15 %; None where nothing was measured."""
        return None if self.times is None else abs(self.times - 1.0) <= WITHIN


@cache
def published_rows() -> tuple[Published, ...]:
    """All rows that are shipped."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_read(row) for row in csv.DictReader(file))


def devices() -> list[str]:
    """The devices that there are rows of."""
    return sorted({row.gpu for row in published_rows()})


def device_of(run: Run) -> str:
    """The run's device by its full name, as the driver gives it."""
    ceilings = run.header.ceilings
    named = run.header.environment.get("gpu_name") or (ceilings and ceilings.device_name)
    return str(named or run.header.device)


def of_device(run: Run) -> list[Published]:
    """The rows of the run's own device: a whole one, and of that very name."""
    if run.header.device != "cuda" or run.header.environment.get("gpu_is_mig"):
        return []
    name = device_of(run)
    return [row for row in published_rows() if row.gpu == name]


def references(run: Run) -> list[Reference]:
    """Every published row of the run's device whose problem and pass the run has tried.

    Raises:
        AcrossDevices: there is no row of this device; rows of others are no reference for it.
    """
    rows = of_device(run)
    if not rows:
        part = " (a MIG part)" if run.header.environment.get("gpu_is_mig") else ""
        raise AcrossDevices(
            f"nothing published here is of {device_of(run)}{part}: rows are of "
            f"{', '.join(devices())}; another device's are no reference"
        )
    tried = {(cell.problem.with_(layout="bhtd"), cell.pass_) for cell in run.cells}
    found = [row for row in rows if (row.problem, row.pass_) in tried]
    return [reference for row in found for reference in _beside(run, row)]


def _beside(run: Run, row: Published) -> list[Reference]:
    """The row with each counterpart of the run, or with nothing."""
    counterparts = _COUNTERPARTS.get(row.implementation, {})
    same = [
        cell
        for cell in run.cells
        if cell.implementation in counterparts
        and cell.pass_ == row.pass_
        and cell.problem.with_(layout="bhtd") == row.problem
    ]
    told = tuple(_published_so(row))
    comparable = [cell for cell in same if cell.is_comparable]
    if not comparable:
        why = f"no counterpart of {row.implementation} here"
        if counterparts:
            states = [f"{c.implementation}: {', '.join(c.flags) or c.status}" for c in same]
            why = "; ".join(states) or f"{' and '.join(counterparts)}: not measured"
        return [Reference(row, None, None, (why, *told))]
    return [
        Reference(
            row,
            cell,
            row.time_s / cell.time_s,
            (counterparts[cell.implementation], *_measured_so(cell), *told),
        )
        for cell in comparable
        if cell.time_s
    ]


def _published_so(row: Published) -> list[str]:
    words = [f"published: {_READ_FROM.get(row.read_from, row.read_from)}"]
    words += ["causal FLOP by half, compared by time"] if row.convention == "fa" else []
    return [*words, "its clocks and power are not known"]


def _measured_so(cell: Cell) -> list[str]:
    words = [f"here: {cell.cache} cache, {cell.clock} median, {cell.problem.layout}"]
    state = cell.device_state
    if state and state.sm_clock_mhz:
        words[0] += f", {state.sm_clock_mhz:.0f} MHz"
    return words


def of_source(found: Sequence[Reference]) -> list[str]:
    """The sources of the rows, each once."""
    return list(dict.fromkeys(one.published.source for one in found))


def _read(row: dict[str, str]) -> Published:
    problem = Problem(
        B=int(row["B"]),
        T_q=int(row["T"]),
        T_kv=int(row["T"]),
        H=int(row["H"]),
        H_kv=int(row["H_kv"]),
        d_h=int(row["d_h"]),
        dtype=row["dtype"],
        causal=row["causal"] == "1",
    )
    return Published(
        gpu=row["gpu"],
        implementation=row["implementation"],
        problem=problem,
        pass_=row["pass"],
        flop_per_s=1e12 * float(row["tflops"]),
        convention=row["flop_convention"],
        source=row["source"],
        read_from=row["read_from"],
    )

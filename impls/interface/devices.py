"""Published dense peaks of known devices, from `devices.csv`; an unknown device has none.

The figures are datasheet values without sparsity, with float32 accumulation. They are drawn beside
measured ceilings, never mixed with them. `confidence` is A (published and reproduced by SM × clock
× FLOP per clock and SM), B (derived, or confirmed by device logs) or C (unconfirmed).
"""

from __future__ import annotations

import csv
import difflib
import functools
import re
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("devices.csv")
# A driver reports a few percent less than is printed, or up to 7 % more where GiB are sold as GB.
MEMORY_TOLERANCE = 0.10


@dataclass(frozen=True)
class DeviceRow:
    """One device as its maker describes it, in SI units.

    None is "does not exist" or "unknown".

    Attributes:
        name_pattern: matches the whole name that torch reports.
        sm_clock_hz, tensor_clock_hz: the clocks that the float32 and the tensor peaks assume.
        tensor_flop_per_clock: of one SM, 16-bit inputs; `fp32_flop_per_clock` likewise.
        exp_per_clock: exponentials a clock and SM.
        achievable_bf16_flop_per_s: the best matrix product others measured, by `achievable_source`.
    """

    key: str
    name_pattern: str
    vendor: str
    architecture: str
    compute_capability: str
    sm_count: int
    sm_clock_hz: float
    tensor_clock_hz: float
    memory_bytes: float
    bytes_per_s: float
    l2_bytes: int
    shared_bytes_per_sm: int
    power_w: float
    fp32_flop_per_s: float
    tf32_flop_per_s: float | None
    fp16_flop_per_s: float | None
    bf16_flop_per_s: float | None
    fp8_flop_per_s: float | None
    tensor_flop_per_clock: int
    fp32_flop_per_clock: int
    exp_per_clock: int | None
    achievable_bf16_flop_per_s: float | None
    achievable_source: str
    confidence: str
    source: str
    note: str

    @property
    def exp_per_s(self) -> float | None:
        """Exponentials a second of all SMs at the float32 clock."""
        if self.exp_per_clock is None:
            return None
        return self.sm_count * self.sm_clock_hz * self.exp_per_clock

    def flop_per_s(self, dtype: str) -> float | None:
        """The dense peak of a problem's dtype; float32 is true float32, not TF32."""
        peaks = {
            "float32": self.fp32_flop_per_s,
            "float16": self.fp16_flop_per_s,
            "bfloat16": self.bf16_flop_per_s,
        }
        return peaks.get(dtype)


def datasheet(
    device_name: str, sm_count: int | None = None, memory_bytes: int | None = None
) -> DeviceRow | None:
    """The row whose pattern matches the whole name that torch reports, or None.

    `sm_count` and `memory_bytes`, where given, must agree as well: a MIG slice, a laptop part or
    another card under a known name has no datasheet here. Nothing is guessed from a similar name.
    """
    for row in device_rows():
        if re.fullmatch(row.name_pattern, device_name):
            fits_sm = sm_count is None or sm_count == row.sm_count
            away = 0.0 if memory_bytes is None else abs(memory_bytes / row.memory_bytes - 1)
            return row if fits_sm and away <= MEMORY_TOLERANCE else None
    return None


def device_row(key: str) -> DeviceRow:
    """The row called `key`, in whatever case.

    Raises:
        ValueError: there is none; the message offers close keys and lists all.
    """
    rows = {row.key: row for row in device_rows()}
    if key.lower() not in rows:
        close = difflib.get_close_matches(key.lower(), rows, n=3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise ValueError(f'no device "{key}": {hint}known: {", ".join(rows)}')
    return rows[key.lower()]


@functools.cache
def device_rows() -> tuple[DeviceRow, ...]:
    """Every row of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(_row(record) for record in csv.DictReader(file, strict=True))


def _row(text: dict[str, str]) -> DeviceRow:
    def scaled(column: str, factor: float) -> float | None:
        return float(text[column]) * factor if text[column] else None

    return DeviceRow(
        key=text["key"],
        name_pattern=text["torch_name_regex"],
        vendor=text["vendor"],
        architecture=text["arch"],
        compute_capability=text["cc"],
        sm_count=int(text["sm"]),
        sm_clock_hz=float(text["max_sm_mhz"]) * 1e6,
        tensor_clock_hz=float(text["tensor_mhz"]) * 1e6,
        memory_bytes=float(text["mem_gb"]) * 1e9,
        bytes_per_s=float(text["mem_bw_gbps"]) * 1e9,
        l2_bytes=int(text["l2_mb"]) * 2**20,
        shared_bytes_per_sm=int(text["smem_kb_per_sm"]) * 2**10,
        power_w=float(text["power_w"]),
        fp32_flop_per_s=float(text["fp32_tflops"]) * 1e12,
        tf32_flop_per_s=scaled("tf32_tflops", 1e12),
        fp16_flop_per_s=scaled("fp16_tflops", 1e12),
        bf16_flop_per_s=scaled("bf16_tflops", 1e12),
        fp8_flop_per_s=scaled("fp8_tflops", 1e12),
        tensor_flop_per_clock=int(text["mm16_flop_per_clk_sm"]),
        fp32_flop_per_clock=int(text["fp32_flop_per_clk_sm"]),
        exp_per_clock=int(text["exp_per_clk_sm"]) if text["exp_per_clk_sm"] else None,
        achievable_bf16_flop_per_s=scaled("achievable_bf16_tflops", 1e12),
        achievable_source=text["achievable_src"],
        confidence=text["confidence"],
        source=text["source"],
        note=text["note"],
    )

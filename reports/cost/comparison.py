"""A comparison as `python -m impls cost --compare … --json` writes it, read for drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reports.style import plural, quantity
from results.phrases import DTYPE_NAMES

_FIELDS = (
    *("prefill_core_share", "decode_core_share", "cache_bytes"),
    *("prefill_tokens_per_s", "decode_tokens_per_s"),
)


@dataclass(frozen=True)
class Line:
    """One variant: its lengths, and a list of values by the field's name; None is unknown."""

    name: str
    lengths: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    crossings: Mapping[str, int | None]

    def known(self, field: str) -> tuple[list[int], list[float]]:
        """The lengths at which the field is known, and its values there."""
        pairs = [(T, v) for T, v in zip(self.lengths, self.values[field], strict=True) if v]
        return [T for T, _ in pairs], [v for _, v in pairs]


@dataclass(frozen=True)
class Comparison:
    """What the figures draw; `memories` are devices' bytes by name, smallest first."""

    lines: tuple[Line, ...]
    subject: str
    device: str | None
    memory_bytes: float | None
    weight_bytes: int | None
    memories: Mapping[str, float]

    @property
    def lengths(self) -> list[int]:
        """Every length of any line, rising."""
        return sorted({T for line in self.lines for T in line.lengths})

    def title(self, what: str) -> str:
        """One line that says what is drawn, of which model and dtype."""
        return f"{what} · {self.subject}"


def read_comparison(record: Mapping[str, Any]) -> Comparison:
    """The comparison of a JSON record.

    Raises:
        ValueError: it lacks what a comparison has; the missing name is told.
    """
    try:
        return _read(record)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no comparison of python -m impls cost: {error!r}") from error


def _read(record: Mapping[str, Any]) -> Comparison:
    setting, rates = record["setting"], record["setting"]["rates"]
    device = None
    if rates is not None:
        how = "measured" if rates["is_measured"] else "datasheet"
        device = f"{rates['name']}, {quantity(rates['bytes_per_s'], 'B/s')} ({how})"
    base = record["base"]
    layers = plural(base["shape"]["L"], "layer")
    dtype = DTYPE_NAMES.get(setting["dtype"], setting["dtype"])
    return Comparison(
        lines=tuple(_line(one, record["rows"]) for one in record["variants"]),
        subject=f"{base['name']}, {layers}, {dtype}",
        device=device,
        memory_bytes=setting["memory_bytes"],
        weight_bytes=setting["model_weight_bytes"],
        memories=dict(sorted(record["device_memory_bytes"].items(), key=lambda one: one[1])),
    )


def _line(variant: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Line:
    mine = [row for row in rows if row["variant"] == variant["name"]]
    return Line(
        name=variant["name"],
        lengths=tuple(row["T"] for row in mine),
        values={field: tuple(row[field] for row in mine) for field in _FIELDS},
        crossings={which: variant[f"{which}_crossing_T"] for which in ("prefill", "decode")},
    )

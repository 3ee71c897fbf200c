"""The blocks of a sweep, the best bound first: one table for each kernel and architecture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_HEADER = f"{'block':<34}{'regs':>5}{'spills':>7}{'KiB':>5}{'SM':>4}{'bound %':>10}  limited by"


def ranked(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Best first: compiles and fits, spills nothing in its loop, has the higher bounds."""

    def order(record: Mapping[str, Any]) -> tuple:
        bound, resources, loop = record["bound"], record["resources"], record["hot_loop"]
        inside = loop["spill_stores"] + loop["spill_loads"] if loop else 0
        return (
            record["status"] != "ok",
            inside,
            -(bound["overlap_percent"] if bound else 0.0),
            -(bound["no_overlap_percent"] if bound else 0.0),
            resources["spill_stores"] + resources["spill_loads"] if resources else 0,
            resources["registers"] if resources else 0,
            _block_text(record),
        )

    return sorted(records, key=order)


def ranking(records: Sequence[Mapping[str, Any]]) -> str:
    """The tables as text, at most 80 columns; "SM" is how many blocks one holds."""
    groups: dict[tuple, list[Mapping[str, Any]]] = {}
    for record in records:
        subject = (record["kernel"], record["arch"], record["dtype"], record["d_h"])
        groups.setdefault((*subject, str(record["constants"])), []).append(record)
    lines: list[str] = []
    for (kernel, arch, dtype, d_h, _), group in groups.items():
        words = [kernel, arch, dtype, f"d_h {d_h}" if d_h else None]
        lines += ["", ", ".join(filter(None, words)), _HEADER]
        for record in ranked(group):
            lines += _lines(record)
    lines += ["", "bound: no overlap to overlap, of the peak; a bound, no prediction. *: default"]
    return "\n".join(lines[1:])


def _lines(record: Mapping[str, Any]) -> list[str]:
    block = _block_text(record) + ("*" if record["is_default"] else "")
    resources, bound, loop = record["resources"], record["bound"], record["hot_loop"]
    reasons = [f"  {line}"[:80] for reason in record["reasons"] for line in reason.split("\n")[:1]]
    if resources is None:
        return [f"{block:<34}{record['status']}", *reasons]
    spills = resources["spill_stores"] + resources["spill_loads"]
    inside = loop["spill_stores"] + loop["spill_loads"] if loop else 0
    shared = resources["static_shared_bytes"] + resources["dynamic_shared_bytes"]
    span, limit = "–", "–"
    if bound is not None:
        span = f"{bound['no_overlap_percent']:.0f}–{bound['overlap_percent']:.0f}"
        limit = bound["limited_by"]
    figures = f"{resources['registers']:>5}{f'{spills}!' if inside else spills:>7}"
    figures += f"{shared / 1024:>5.0f}{resources['occupancy']['blocks']:>4}{span:>10}  {limit}"
    return [f"{block:<34}{figures}", *reasons]


def _block_text(record: Mapping[str, Any]) -> str:
    """ "BLOCK_Q 128, BLOCK_KV 64, w4 s3" in at most 33 letters."""
    short = {"num_warps": "w", "num_stages": "s"}
    sizes = [
        f"{n.removeprefix('BLOCK_')} {v}" for n, v in record["block"].items() if n not in short
    ]
    options = [f"{short[n]}{v}" for n, v in record["block"].items() if n in short]
    text = ", ".join([*sizes, " ".join(options)])
    return text if len(text) <= 33 else text[:32] + "…"

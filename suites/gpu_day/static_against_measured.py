"""`python -m suites.gpu_day.static_against_measured`: what code allows beside what it reached.

The kernels are compiled for the day's GPU (or, without one, for sm_90), and the bound of each hot
loop stands beside the best forward row that ran it: both are % of the vendor's peak, since the
static bound is made from published throughputs. Nothing may be above its bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ABOVE_BY = 1.03
"""As a row above its ceiling: 3 % are within what clocks vary."""
_WITHOUT_GPU = "sm_90"
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def beside(
    profiles: Sequence[Mapping[str, Any]], cells: Sequence[Mapping[str, Any]], peak: float | None
) -> list[dict[str, Any]]:
    """A line for each kernel on matrix units: its bound and what it reached, or why not.

    `peak` is the device's published FLOP/s of 16-bit products.
    """
    lines = []
    for profile in profiles:
        bound = profile.get("bound")
        if not bound or bound["of"] != "mma" or profile["dtype"] not in _DTYPES:
            continue
        rows = [cell for cell in cells if _ran(profile, cell)]
        best = max((c["counts"]["flop"] / c["timing"]["median_s"] for c in rows), default=None)
        percent = None if best is None or not peak else 100 * best / peak
        allowed = bound["overlap_percent"]
        line = {
            "kernel": profile["kernel"],
            "arch": profile["arch"],
            "dtype": profile["dtype"],
            "d_h": profile["d_h"],
            "is_causal": _is_causal(profile),
            "bound_percent": allowed,
            "limited_by": bound["limited_by"],
            "measured_percent": percent,
            "rows": len(rows),
            "is_within": None if percent is None else percent <= ABOVE_BY * allowed,
        }
        if percent is None:
            line["reason"] = "no row ran it" if best is None else "the device's peak is not known"
        lines.append(line)
    return lines


def _ran(profile: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
    problem = cell["problem"]
    return (
        cell["status"] == "ok"
        and cell["pass"] == "forward"
        and profile["kernel"] in (cell.get("ran") or ())
        and problem["dtype"] == _DTYPES[profile["dtype"]]
        and problem["d_h"] == profile["d_h"]
        and bool(problem.get("causal")) == _is_causal(profile)
    )


def _is_causal(profile: Mapping[str, Any]) -> bool:
    return bool(profile["constants"].get("IS_CAUSAL"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, read the day's run, print both as JSON → 0, 1 above its bound, else static's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="of the day")
    parser.add_argument("--kernel", help="one kernel; all without")
    parser.add_argument("--d_h", help="one head size; 64 and 128 without")
    options = parser.parse_args(arguments)
    arch = _arch(options.folder)
    command = [sys.executable, "-m", "suites", "static", "--json", "--arch", arch or _WITHOUT_GPU]
    command += ["--store", str(options.folder / "static")]
    for name in ("kernel", "d_h"):
        if getattr(options, name):
            command += [f"--{name}", getattr(options, name)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return done.returncode + 10
    profiles = json.loads(done.stdout)["profiles"]
    cells, peak = [], None
    for run, header in _runs(options.folder / "runs"):
        cells += [json.loads(line) for line in run.read_text(encoding="utf-8").splitlines()]
        peak = ((header.get("ceilings") or {}).get("datasheet") or {}).get("bf16_flop_per_s")
    lines = beside(profiles, cells if arch else [], peak)
    if arch is None:
        lines = [line | {"reason": "not measured: no GPU"} for line in lines]
    print(json.dumps({"told": told(lines, len(profiles)), "kernels": lines}, indent=1))
    return 1 if any(line["is_within"] is False for line in lines) else 0


def told(lines: Sequence[Mapping[str, Any]], compiled: int) -> str:
    """The sentence of all of them."""
    measured = [line for line in lines if line["measured_percent"] is not None]
    if not measured:
        reasons = sorted({line["reason"] for line in lines})
        return f"{compiled} kernels compiled; beside them: {'; '.join(reasons) or 'no bound'}"
    best = max(measured, key=lambda line: line["measured_percent"])
    above = [line["kernel"] for line in measured if not line["is_within"]]
    return (
        f"{len(measured)} of {compiled} kernels measured, the best at "
        f"{best['measured_percent']:.0f} % of the peak where its code allows "
        f"{best['bound_percent']:.0f} %"
        + (f"; above its bound: {', '.join(above)}" if above else "")
    )


def _arch(folder: Path) -> str | None:
    """ "sm_90" of the day's GPU, None without one or where it is not known."""
    try:
        text = (folder / "1-environment" / "environment.json").read_text(encoding="utf-8")
        capability = json.loads(text)["environment"]["compute_capability"]
    except (OSError, ValueError, KeyError):
        return None
    return f"sm_{capability.replace('.', '')}" if capability else None


def _runs(store: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for header in sorted(store.glob("*/*/run.json")):
        yield header.parent / "cells.jsonl", json.loads(header.read_text(encoding="utf-8"))


if __name__ == "__main__":
    raise SystemExit(main())

"""What the allocator's policy is for: one cell in ten launches, with it and without.

The cell is the plain formula at T = 512, one head, causal: scores, masked scores and weights of
1 MB each, made and let go at every call. The launches are all the same; where a process
has its memory differs from one to the next.
`python -m tests.allocator_launches` measures and writes its table into docs/gate.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gate.md"
OPENING = "<!-- measured by `python -m tests.allocator_launches` -->"
CLOSING = "<!-- end of what it measured -->"
LAUNCHES = 10

_LAUNCH = """
import json, resource, sys, time
import torch
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from suites.measure import allocator

if sys.argv[1] == "steady":
    allocator.make_steady()
torch.set_num_threads(1)
inputs = make_inputs(Problem.parse("T=512,H=1,d_h=64,causal"), "cpu")
naive = implementations()["naive"].forward


def round_s(calls=4):
    started = time.process_time()
    for _ in range(calls):
        naive(inputs.q, inputs.k, inputs.v, causal=True)
    return (time.process_time() - started) / calls


with torch.no_grad():
    for _ in range(5):
        round_s()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    samples = sorted(round_s() for _ in range(160))
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
print(json.dumps({"time_s": samples[40], "faults_per_call": faults / 640,
                  "policy": allocator.policy()}))
"""


@dataclass(frozen=True)
class Launch:
    """One launch: the lower quartile of a call's CPU time, and the pages zeroed for a call."""

    time_s: float
    faults_per_call: float
    policy: str


def launches(n: int = LAUNCHES) -> tuple[list[Launch], list[Launch]]:
    """Launches with the policy and without, by turns."""
    steady, default = [], []
    for _ in range(n):
        steady.append(_launch("steady"))
        default.append(_launch("default"))
    return steady, default


def spread(found: list[Launch]) -> float:
    """The standard deviation of log times between launches."""
    return float(np.std(np.log([one.time_s for one in found]), ddof=1))


def _launch(policy: str) -> Launch:
    command = [sys.executable, "-c", _LAUNCH, policy]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return Launch(**json.loads(out))


def table(steady: list[Launch], default: list[Launch]) -> list[str]:
    """A row with the policy and one without."""
    rows = [
        "| allocator | fastest launch | slowest | ratio | spread | zeroed pages a call |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for words, found in (("as attnbench sets it", steady), ("glibc's default", default)):
        times_ms = [1e3 * one.time_s for one in found]
        low, high = min(times_ms), max(times_ms)
        faults = [one.faults_per_call for one in found]
        numbers = f"{low:.2f} ms | {high:.2f} ms | {high / low:.2f} | {100 * spread(found):.1f} %"
        rows.append(f"| {words} | {numbers} | {min(faults):.0f} to {max(faults):.0f} |")
    return rows


def main() -> int:
    """Measure, and write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    start, end = text.index(OPENING) + len(OPENING), text.index(CLOSING)
    rows = table(*launches())
    PAGE.write_text(f"{text[:start]}\n\n" + "\n".join(rows) + f"\n\n{text[end:]}", encoding="utf-8")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the allocator's policy is for: one cell in ten launches, with it and without.

The cell is the plain formula at T = 512, one head, causal: scores, masked scores and weights of
1 MB each, made and let go at every call. The launches are all the same; where a process
has its memory differs from one to the next. So does the speed of a shared machine: by turns with
the cell each launch times the same arithmetic in buffers that it keeps, which asks the allocator
for nothing. What the cell takes of that time is the allocator's doing alone.
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
import json, resource, statistics, sys, time
import torch
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.naive import forward as naive
from suites.measure import allocator

if sys.argv[1] == "steady":
    allocator.make_steady()
torch.set_num_threads(1)
T = 512
inputs = make_inputs(Problem.parse(f"T={T},H=1,d_h=64,causal"), "cpu")
q, k, v = inputs.q, inputs.k, inputs.v
scores, weights, out = torch.empty(1, 1, T, T), torch.empty(1, 1, T, T), torch.empty_like(q)
hidden = ~torch.ones(T, T, dtype=torch.bool).tril()


def cell():
    naive(q, k, v, causal=True)


def kept():
    torch.matmul(q, k.mT, out=scores)
    scores.mul_(q.shape[-1] ** -0.5).masked_fill_(hidden, float("-inf"))
    torch.softmax(scores, -1, out=weights)
    torch.matmul(weights, v, out=out)


def timed(formula, calls=4):
    started, zeroed = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        formula()
    time_s = (time.process_time() - started) / calls
    return time_s, (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - zeroed) / calls


with torch.no_grad():
    for _ in range(5):
        timed(cell), timed(kept)
    rounds = [(*timed(cell), timed(kept)[0]) for _ in range(160)]
times_s, faults, kept_s = zip(*rounds)
print(json.dumps({
    "time_s": sorted(times_s)[40],
    "kept_s": sorted(kept_s)[40],
    "of_kept": statistics.median(a / b for a, b in zip(times_s, kept_s)),
    "faults_per_call": statistics.fmean(faults),
    "policy": allocator.policy(),
}))
"""


@dataclass(frozen=True)
class Launch:
    """One launch: the cell beside the same arithmetic in kept buffers.

    Lower quartiles of a call's CPU time, the median of the one over the other, and the pages
    zeroed for a call.
    """

    time_s: float
    kept_s: float
    of_kept: float
    faults_per_call: float
    policy: str


def launches(n: int = LAUNCHES) -> tuple[list[Launch], list[Launch]]:
    """Launches with the policy and without, by turns."""
    steady, default = [], []
    for _ in range(n):
        steady.append(_launch("steady"))
        default.append(_launch("default"))
    return steady, default


def spread(values: list[float]) -> float:
    """The standard deviation of logarithms between launches."""
    return float(np.std(np.log(values), ddof=1))


def _launch(policy: str) -> Launch:
    command = [sys.executable, "-c", _LAUNCH, policy]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return Launch(**json.loads(out))


def table(steady: list[Launch], default: list[Launch]) -> list[str]:
    """A row with the policy and one without."""
    rows = [
        "| allocator | fastest launch | slowest | spread | of it in kept buffers "
        "| over kept buffers | spread | zeroed pages a call |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for words, found in (("as attnbench sets it", steady), ("glibc's default", default)):
        times_ms = [1e3 * one.time_s for one in found]
        ratios = [one.of_kept for one in found]
        faults = [one.faults_per_call for one in found]
        cells = [
            words,
            f"{min(times_ms):.2f} ms",
            f"{max(times_ms):.2f} ms",
            f"{100 * spread(times_ms):.1f} %",
            f"{100 * spread([one.kept_s for one in found]):.1f} %",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            f"{100 * spread(ratios):.1f} %",
            f"{min(faults):.0f} to {max(faults):.0f}",
        ]
        rows.append("| " + " | ".join(cells) + " |")
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

"""`python -m suites.gpu_day.conformance_sample`: all implementations on a sample of the matrix.

A process an implementation, several at once, as a kernel that fails may take its process's device
with it; each writes DIR/<name>.json again and again, so that what was checked is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

from suites.measure.atomic_file import write_json

WRONG, NOTHING = 1, 5
MOST_AT_ONCE = 6
WRITE_EACH_S = 2.0
_THIS = "suites.gpu_day.conformance_sample"


def sampled(cases: Sequence[Any]) -> list[Any]:
    """The cases so that a beginning of any length has some of each subject."""
    subjects: dict[str, list[Any]] = defaultdict(list)
    for case in cases:
        subjects[case.subject].append(case)
    turns = zip_longest(*subjects.values())
    return [case for turn in turns for case in turn if case is not None]


def check(name: str, device: str, seconds: float, out: Path) -> int:
    """Check one implementation for so long, in this process → 1 where something is wrong."""
    import torch

    from impls.interface.availability import version_of
    from impls.interface.conformance import Conformance
    from impls.interface.conformance_cases import cases
    from impls.interface.conformance_trial import Trial
    from impls.interface.first_call import inability_tried_apart
    from impls.interface.problem import SOFTMAX
    from impls.interface.registry import implementations

    # Small calls: a second thread waits for the first.
    torch.set_num_threads(1)
    began = time.monotonic()
    one = implementations()[name]
    if unable := inability_tried_apart(one, device):
        told = {"implementation": name, "status": unable.status, "reasons": list(unable.reasons)}
        write_json(out / f"{name}.json", told)
        return 0 if unable.status == "unavailable" else WRONG
    if one.operator != SOFTMAX:
        why = "another operator than softmax: its own check is `python -m impls check`"
        told = {"implementation": name, "status": "not checked", "reasons": [why]}
        write_json(out / f"{name}.json", told)
        return 0
    mine = [case for case in cases() if case.core or not one.needs_compiler]
    asked = [(case, ask) for case in sampled(mine) for ask in case.asks]
    trial, outcomes = Trial(one, device, "device"), []

    def written() -> bool:
        where = (one.name, version_of(one), device, "device")
        found = Conformance(*where, tuple(outcomes), {}, time.monotonic() - began)
        status = "right" if found.ok else "wrong"
        told = {"status": status, "checked": len(outcomes), "of": len(asked)}
        write_json(out / f"{name}.json", told | found.to_json())
        return found.ok

    next_s = began + WRITE_EACH_S
    for case, ask in asked:
        outcomes.append(trial.outcome(case, ask))
        if time.monotonic() - began > seconds:
            break
        if time.monotonic() > next_s:
            written()
            next_s = time.monotonic() + WRITE_EACH_S
    return 0 if written() else WRONG


def check_all(
    names: Sequence[str], device: str, seconds: float, out: Path, each_s: float
) -> dict[str, Any]:
    """Check them side by side, each in a process of its own → what their files say, by name.

    All of them together take `seconds`, and the checks of one `each_s` at most, its start aside.
    """
    end = time.monotonic() + seconds
    at_once = max(1, min(MOST_AT_ONCE, (os.cpu_count() or 1) // 2))

    def one(name: str) -> None:
        left_s = end - time.monotonic()
        rounds = -(-len(names) // at_once)
        own_s = min(left_s, seconds / rounds)
        told = {"implementation": name, "status": "not checked", "reasons": ["no time was left"]}
        if own_s > 0:
            command = [sys.executable, "-m", _THIS, "--one", name, "--device", device]
            command += ["--seconds", f"{min(each_s, 0.7 * own_s):.1f}", "--out", str(out)]
            print(name, file=sys.stderr, flush=True)
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            try:
                code = child.wait(left_s)
                told |= {"status": "crashed", "reasons": [f"its process ended with {code}"]}
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                told |= {"reasons": [f"nothing was checked in {left_s:.0f} s"]}
        if not (out / f"{name}.json").exists():
            write_json(out / f"{name}.json", told)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, names))
    return {name: json.loads((out / f"{name}.json").read_text(encoding="utf-8")) for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what is named, or all; the sum goes to stdout as JSON → exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all without a name")
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--each", type=float, default=math.inf, help="seconds of one's checks")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.one:
        return check(options.one, options.device, options.seconds, options.out)
    from impls.interface.registry import select

    names = list(select(options.names))
    found = check_all(names, options.device, options.seconds, options.out, options.each)
    short = {
        name: {k: one.get(k) for k in ("status", "checked", "of", "reasons") if k in one}
        for name, one in found.items()
    }
    counts: dict[str, int] = defaultdict(int)
    for one in found.values():
        counts[one["status"]] += 1
    told = ", ".join(f"{n} {status}" for status, n in counts.items())
    print(json.dumps({"told": told, "counts": counts, "implementations": short}, indent=1))
    if counts["wrong"] or counts["crashed"]:
        return WRONG
    return 0 if counts["right"] else NOTHING


if __name__ == "__main__":
    raise SystemExit(main())

"""`python -m suites run --device cuda:0,cuda:1`: a shard of the sweep on each, then one run."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites.calibrate.launches import checkout_path
from suites.side_by_side.named import VARIABLE, Gpu, gpus, is_named
from suites.supervisor.request import ROOT
from suites.supervisor.stopping import Stopping

WRONG, USAGE, BROKEN = 1, 2, 5
RUN = (sys.executable, "-m", "suites", "run")
_POLL_S = 0.05
_NOT_HERE = ("--shard", "--plan", "--fleet", "--launches")


@dataclass
class _Part:
    """The process of one GPU, and the last that it told."""

    gpu: Gpu
    process: subprocess.Popen[str]
    ended: Mapping[str, Any] = field(default_factory=dict)


def device_of(arguments: Sequence[str]) -> str | None:
    """The value of `--device` where it names single GPUs, else None."""
    found = None
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--device":
            found = following
        elif word.startswith("--device="):
            found = word.partition("=")[2]
    return found if found is not None and is_named(found) else None


def measured(arguments: Sequence[str], named: str, child: Sequence[str] = RUN) -> int:
    """Measure what `suites run` was given on the GPUs that were named → its exit code.

    Each GPU has a process that sees it alone and measures a shard of the plan, dealt as
    `pytest suites --shard` deals it; `results merge` makes one run of them.
    """
    try:
        found = gpus(named)
        if wrong := next((w for w in arguments if w.partition("=")[0] in _NOT_HERE), None):
            raise ValueError(f"{wrong} with --device {named}: leave one of them out")
    except ValueError as error:
        print(f"attnbench: {error}", file=sys.stderr)
        return USAGE
    is_json = "--json-lines" in arguments
    with Stopping() as stopping:
        parts = [_Part(gpu, _started(n, found, arguments, child)) for n, gpu in enumerate(found, 1)]
        readers = [threading.Thread(target=_read, args=(part, is_json)) for part in parts]
        for reader in readers:
            reader.start()
        _wait(parts, stopping)
        for reader in readers:
            reader.join()
        if stopping.is_asked:
            _how_to_go_on(parts)
            return stopping.exit_code
    code = _code([part.process.returncode for part in parts])
    if lost := [part for part in parts if not part.ended.get("path")]:
        _tell_of(lost)
        _how_to_go_on(parts)
        return code or BROKEN
    if any(part.ended.get("cells_left") for part in parts):
        _how_to_go_on(parts)
        return code or BROKEN
    return _merged(parts, is_json) or code


def _started(
    number: int, of: Sequence[Gpu], arguments: Sequence[str], child: Sequence[str]
) -> subprocess.Popen[str]:
    shard = ["--shard", f"{number}/{len(of)}"] if len(of) > 1 else []
    command = [*child, *_without_device(arguments), "--device", "cuda", *shard, "--json-lines"]
    return subprocess.Popen(
        command,
        env=checkout_path() | {VARIABLE: of[number - 1].visible},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is passed on, so that each hears it once.
        start_new_session=True,
    )


def _without_device(arguments: Sequence[str]) -> list[str]:
    words = iter(arguments)
    kept = []
    for word in words:
        if word == "--device":
            next(words, None)
        elif word != "--json-lines" and not word.startswith("--device="):
            kept.append(word)
    return kept


def _read(part: _Part, is_json: bool) -> None:
    """Pass on what a process tells, each line with the GPU that it is of."""
    assert part.process.stdout is not None
    with part.process.stdout as stream:
        for line in stream:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                # One that is killed leaves half a line.
                continue
            if event["event"] == "ended":
                part.ended = event
            if is_json:
                print(json.dumps({**event, "device": part.gpu.name}), flush=True)
            elif text := _line(event):
                print(f"attnbench: {part.gpu.name}: {text}", file=sys.stderr, flush=True)


def _line(event: Mapping[str, Any]) -> str | None:
    if event["event"] == "finished":
        median_s = event["median_s"]
        took = f"{1e3 * median_s:.3g} ms" if median_s else event["status"]
        reached = event["percent_of_bound"]
        bound = f", {reached:.0f} % of bound" if reached else ""
        name = f"{event['implementation']} {event.get('problem_id') or event['cell']}"
        return f"{name}: {took}{bound}, {event['cells_left']} left"
    if event["event"] == "died":
        return f"{event['what']}: {event['cause']}: {event['then']}"
    return {"notice": event.get("text"), "launch": f"{event.get('cells')} cells"}.get(
        event["event"]
    )


def _wait(parts: Sequence[_Part], stopping: Stopping) -> None:
    told = 0
    while any(part.process.poll() is None for part in parts):
        time.sleep(_POLL_S)
        for number in stopping.signals[told:]:
            for part in parts:
                if part.process.poll() is None:
                    part.process.send_signal(signal.Signals(number))
        told = len(stopping.signals)


def _code(codes: Sequence[int]) -> int:
    """What is misused, then what is wrong, then what broke."""
    for worst in (USAGE, WRONG):
        if worst in codes:
            return worst
    return BROKEN if any(codes) else 0


def _tell_of(lost: Sequence[_Part]) -> None:
    for part in lost:
        print(
            f"attnbench: {part.gpu.name}: its process ended with exit code "
            f"{part.process.returncode} and told of no run's end; `python -m results list` has "
            "what it measured, and `python -m suites resume` goes on with it",
            file=sys.stderr,
        )


def _how_to_go_on(parts: Sequence[_Part]) -> None:
    paths = [part.ended["path"] for part in parts if part.ended.get("path")]
    for part in parts:
        if part.ended.get("cells_left") and part.ended.get("path"):
            resume = shlex.join([sys.executable, "-m", "suites", "resume", part.ended["path"]])
            print(f"{part.ended['cells_left']} cells are left on {part.gpu.name}. Go on:")
            print(f"  {VARIABLE}={shlex.quote(part.gpu.visible)} {resume}")
    if len(parts) > 1 and paths:
        lacking = ["RUN"] * (len(parts) - len(paths))
        merge = shlex.join([sys.executable, "-m", "results", "merge", *paths, *lacking])
        print(f"Then make one run of them:\n  {merge} --store {_store(Path(paths[0]))}")


def _store(run: Path) -> Path:
    return run.parents[1]


def _merged(parts: Sequence[_Part], is_json: bool) -> int:
    """Make one run of all shards and show it; of one GPU its run is whole."""
    path = Path(parts[0].ended["path"])
    store = ["--store", str(_store(path))]
    results = [sys.executable, "-m", "results"]
    if len(parts) > 1:
        merge = [*results, "merge", *(part.ended["path"] for part in parts), *store, "--json"]
        done = subprocess.run(merge, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return done.returncode
        merged = json.loads(done.stdout)
        path = Path(merged["path"])
        if is_json:
            print(json.dumps({"event": "merged", **merged}), flush=True)
    if not is_json:
        subprocess.run([*results, "show", str(path), *store], cwd=ROOT, check=False)
    return 0

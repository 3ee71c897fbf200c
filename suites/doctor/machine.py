"""The processor, its clock, the memory, the container and who else is here."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from suites.doctor.finding import Finding, note, ok, problem
from suites.measure import container_limits, host_load, processor, trust

SYS = Path("/sys/devices/system")
STEADY_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
LOAD_SAMPLE_S = 1.0
LEAST_FREE_BYTES = 1 << 30


def findings(store: Path) -> Iterator[Finding]:
    """All that is seen of the machine; takes a second, for the load."""
    yield governor()
    yield smt(SYS)
    yield from clock(SYS)
    yield from container(container_limits.read(), processor.cpu_count())
    yield affinity(processor.cpu_count(), os.cpu_count() or 1)
    yield swap(psutil.swap_memory().used)
    yield load()
    yield from heat(trust.cpu_throttle_count())
    yield from power(psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None)
    yield disk(store)


def governor() -> Finding:
    """Whether the clock is held high between samples."""
    told = processor.governor()
    if told is None:
        return ok("governor", "none is seen: the host, or the firmware, sets the clock")
    if told == "performance":
        return ok("governor", told)
    todo = "sudo cpupower frequency-set -g performance"
    return problem("governor", f"{told}: the clock follows the load, sample by sample", todo)


def smt(root: Path) -> Finding:
    """Whether two logical CPUs share a core."""
    active = _text(root / "cpu/smt/active")
    if active != "1":
        return ok("SMT", "off" if active == "0" else "not told here")
    return note(
        "SMT",
        "on: a neighbour on the same core takes up to half of it, unseen by the CPU clock",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )


def clock(root: Path) -> Iterator[Finding]:
    """The kernel's clock: one read over a bus costs a microsecond a call."""
    source = _text(root / "clocksource/clocksource0/current_clocksource")
    if source is None or source in STEADY_CLOCKS:
        yield ok("clock source", source or "not told here")
        return
    todo = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
    yield problem("clock source", f"{source} is slow to read: short calls seem longer", todo)


def container(limits: container_limits.Limits, cpus: int) -> Iterator[Finding]:
    """CPU quota and memory limit of the control groups around this process."""
    kind = processor.container()
    where = "no container" if kind == "none" else f"container: {kind}"
    if limits.cpus is not None and limits.cpus < cpus:
        yield problem(
            "container limits",
            f"{limits.cpus:g} CPUs of {cpus} ({where}): past its quota the process is stopped for "
            f"some ms in the middle of a sample; seen {limits.throttled or 0} times",
            f"docker run --cpuset-cpus=0-{max(0, int(limits.cpus) - 1)} … in place of --cpus",
        )
    else:
        yield ok("container limits", f"{where}, no CPU quota below its {cpus} CPUs")
    if limits.memory_bytes is not None:
        left = limits.memory_free_bytes or 0
        yield note(
            "memory limit",
            f"{limits.memory_bytes / 1e9:.3g} GB, {left / 1e9:.3g} GB left: plans keep below it",
        )


def affinity(allowed: int, all_cpus: int) -> Finding:
    """Whether all CPUs may be used."""
    if allowed == all_cpus:
        return ok("CPUs", f"all {all_cpus} may be used")
    return note("CPUs", f"{allowed} of {all_cpus} may be used (taskset, cpuset)")


def swap(used_bytes: int) -> Finding:
    """Whether memory was written to a disk."""
    if used_bytes < 1 << 20:
        return ok("swap", "none in use")
    told = f"{used_bytes / 1e9:.3g} GB in use: what is read back from a disk is timed with it"
    return problem("swap", told, "sudo swapoff -a && sudo swapon -a, when memory is free")


def load() -> Finding:
    """Who else uses the machine, over one second."""
    mine = psutil.Process()
    processes = [p for p in psutil.process_iter(["name"]) if p.pid != mine.pid]
    for process in processes:
        _cpu_percent(process)
    before = host_load.read()
    time.sleep(LOAD_SAMPLE_S)
    foreign = host_load.between(before, host_load.read()).foreign_load
    if foreign is None:
        return note("load", "not told here: contention will not be seen on the wall clock")
    if foreign <= host_load.CONTENDED_ABOVE:
        return ok("load", f"others use {foreign:.0%} of the machine")
    busiest = sorted(((_cpu_percent(p), p) for p in processes), key=lambda pair: -pair[0])[:3]
    names = ", ".join(f"{p.info['name']} ({p.pid})" for percent, p in busiest if percent > 5)
    told = f"others use {foreign:.0%} of the machine{': ' + names if names else ''}"
    return problem("load", told, "stop them, or wait: see `top`")


def heat(count: int | None) -> Iterator[Finding]:
    """Whether the processor ever slowed for its heat."""
    if count:
        told = f"the processor slowed down for its heat {count} times since boot"
        yield note("heat", told, "watch the rows flagged throttled; clean the fans")


def power(battery: object) -> Iterator[Finding]:
    """Whether a laptop runs on its battery."""
    if battery is not None and getattr(battery, "power_plugged", None) is False:
        yield problem("power", "on battery: the clock is kept low", "plug it in")


def disk(store: Path) -> Finding:
    """Whether runs can be kept."""
    there = next(folder for folder in (store, *store.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        todo = "export ATTNBENCH_STORE=~/attnbench-runs"
        return problem("store", f"{store} cannot be written", todo)
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE_BYTES:
        todo = f"free some, or export ATTNBENCH_STORE elsewhere (now {store})"
        return problem("store", f"{free / 1e9:.2g} GB are free for {store}", todo)
    return ok("store", f"{store}, {free / 1e9:.3g} GB free")


def _cpu_percent(process: psutil.Process) -> float:
    """Since the last call, in % of one CPU; 0 of one that is gone."""
    try:
        return process.cpu_percent()
    except psutil.Error:
        return 0.0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None

"""Bytes that really crossed the memory bus in one call, where a machine counts them."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.profile.profiled import Ready

EVENT_SOURCES = Path("/sys/bus/event_source/devices")
_LINE_BYTES = 64  # what one transfer on a memory channel moves: a cache line
_MIB = 2**20
_CALLS = 10
_START_S, _NCU_S = 10.0, 180.0
# perf_event_open's names in sysfs: Intel's servers and clients (drivers/…/intel/uncore), and AMD's
# from Zen 4 on (arch/x86/events/amd/uncore.c: event 0x0a counts column accesses, rdwrmask which).
_INTEL = (("cas_count_read", "cas_count_write"), ("data_reads", "data_writes"))
_AMD = ("event=0x0a,rdwrmask=1", "event=0x0a,rdwrmask=2")
_NCU_METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")


@dataclass(frozen=True)
class Counted:
    """Bytes that a call moved between memory and processor; None: not measured, and why."""

    n_bytes: float | None
    told: str


def of_cpu(ready: Ready) -> Counted:
    """By the counters of the memory controllers, which see the whole machine, through `perf`."""
    perf = shutil.which("perf")
    events = list(_events(EVENT_SOURCES))
    if perf is None:
        return Counted(None, "perf is not installed")
    if not events:
        return Counted(None, "the memory controllers' counters are not to be seen here")
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "counts", Path(folder) / "log"
        try:
            with _counting(perf, events, out, log) as tell:
                tell("enable")
                ready.run(_CALLS)
                tell("disable")
            moved = _read_counts(out)
        except (OSError, ValueError) as error:
            words = log.read_text(errors="replace").split() if log.exists() else []
            return Counted(None, f"perf: {' '.join(words)[:200] or error}")
    return Counted(moved / _CALLS, "perf, the memory controllers of the whole machine")


def _events(sources: Path) -> Iterator[str]:
    """The reads and writes of every memory channel, as `perf stat -e` takes them."""
    for source in sorted(sources.glob("uncore_imc*")):
        for names in _INTEL:
            if all((source / "events" / name).exists() for name in names):
                yield from (f"{source.name}/{name}/" for name in names)
                break
    for source in sorted(sources.glob("amd_umc*")):
        yield from (f"{source.name}/{event}/" for event in _AMD)


@contextlib.contextmanager
def _counting(perf: str, events: Sequence[str], out: Path, log: Path):
    """A `perf stat` that counts between "enable" and "disable", and writes `out` at its end.

    Raises:
        OSError: it may not count, or ended before it was told to.
    """
    (their_end, to_perf), (from_perf, our_end) = os.pipe(), os.pipe()
    command = [perf, "stat", "-a", "-x", ";", "-o", str(out), "-e", ",".join(events)]
    command += ["--delay", "-1", "--control", f"fd:{their_end},{our_end}"]
    with log.open("wb") as words:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            pass_fds=(their_end, our_end),
        )
    os.close(their_end)
    os.close(our_end)

    def tell(word: str) -> None:
        os.write(to_perf, f"{word}\n".encode())
        if b"ack" not in os.read(from_perf, 64):
            raise OSError("it ended before it was told to")

    try:
        yield tell
        process.send_signal(signal.SIGINT)
        process.wait(_START_S)
    except subprocess.TimeoutExpired as error:
        raise OSError("it did not end") from error
    finally:
        process.kill()
        process.wait()
        os.close(to_perf)
        os.close(from_perf)


def _read_counts(out: Path) -> float:
    """The bytes in a `perf stat -x ;` file: counts of lines, or of MiB where perf scaled them."""
    total = 0.0
    rows = [line.split(";") for line in out.read_text(encoding="utf-8").splitlines()]
    counts = [row for row in rows if len(row) > 2 and "/" in row[2]]
    if not counts:
        raise ValueError("it counted nothing")
    for value, unit, *_ in counts:
        if value.startswith("<"):
            raise ValueError(value.strip("<>"))
        total += float(value) * (_MIB if unit == "MiB" else _LINE_BYTES)
    return total


def of_gpu(arguments: Sequence[str]) -> Counted:
    """By Nsight Compute: the same command once more below it, which makes one call.

    `arguments` are those of `python -m suites profile`.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        return Counted(None, "ncu is not installed")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [ncu, "--csv", "--print-units", "base", "--profile-from-start", "off"]
        command += ["--metrics", ",".join(_NCU_METRICS), "--log-file", str(log)]
        command += [sys.executable, "-m", "suites", "profile", *arguments, "--under-ncu"]
        try:
            subprocess.run(command, capture_output=True, timeout=_NCU_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Counted(None, f"ncu: {error}"[:200])
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return _of_ncu(text)


def _of_ncu(text: str) -> Counted:
    lines = text.splitlines()
    table = [line for line in lines if not line.startswith("==") and line.strip()]
    rows = [row for row in csv.DictReader(table) if row.get("Metric Name") in _NCU_METRICS]
    if not rows:
        said = [line.strip("= ") for line in lines if "ERR" in line or "WARNING" in line]
        return Counted(None, f"ncu: {(said or ['it told nothing'])[0]}"[:200])
    moved = sum(float(row["Metric Value"].replace(",", "")) for row in rows)
    return Counted(moved, "ncu, every kernel of one call, replayed")

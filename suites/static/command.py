"""`python -m suites static`: its options, the run it writes and what it prints."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from impls.interface.spellings import SHORT_DTYPES
from suites.static.brought import constants_of, value_of
from suites.static.compiler import Misused
from suites.static.interruption import NOTHING_KEPT, Interrupted, interruptible, keeping
from suites.static.ranking import ranked, ranking
from suites.static.selection import Selected, Wanted, select
from suites.static.workers import compiled, read_toolchains

if TYPE_CHECKING:
    from suites.static.run_files import StaticRun

FAILED, USAGE = 1, 2
ROOT = Path(__file__).resolve().parents[2]

EXAMPLES = """examples:
  python -m suites static
  python -m suites static --arch sm_90 --kernel triton_flash_forward --all
  python -m suites static --sweep BLOCK_M=64,128 BLOCK_N=64,128 num_warps=4,8 --arch sm_90
  python -m suites static --kernel add.py:add --signature "*fp32,*fp32,*fp32,i32" \\
      --constants BLOCK=1024

exit codes: 0 compiled, 1 a shipped kernel does not compile or exceeds a limit,
2 usage, or a kernel that was brought does not compile; 130 Ctrl-C, 143 SIGTERM:
what is compiled is kept
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = parser.add_argument
    option(
        "--arch", action="append", default=[], metavar="sm_90", help="or h100; repeatable, or a,b"
    )
    option(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME | FILE.py:NAME",
        help="one of ours, or a @triton.jit function of yours (repeatable)",
    )
    option("--dtype", action="append", default=[], metavar="bf16", help="bf16, fp16 or fp32")
    option("--d_h", action="append", default=[], metavar="128", help="head size")
    option("--all", action="store_true", help="every dtype, head size and variant; sm_120 too")
    option(
        "--sweep",
        nargs="+",
        default=[],
        metavar="BLOCK_M=64,128",
        help="compile these blocks and rank them; BLOCK_M, BLOCK_N or the kernel's own names",
    )
    option("--signature", default="", help='types of a kernel of yours: "*fp32,*fp32,i32"')
    option(
        "--constants",
        nargs="+",
        default=[],
        metavar="BLOCK=1024",
        help="its tl.constexpr arguments, and num_warps, num_stages",
    )
    option("--json", action="store_true", help="print the profiles as JSON, complete")
    option("--store", metavar="DIR", help="folder of runs (default: results/runs)")


def run(options: argparse.Namespace) -> int:
    """Compile, write a run, print it; → exit code."""
    with interruptible():
        try:
            return _run(options)
        except Interrupted as end:
            print(f"static: interrupted: {end}", file=sys.stderr)
            return end.exit_code


def _run(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("triton") is None:
        print("static: triton is not installed: pip install triton", file=sys.stderr)
        return USAGE
    try:
        wanted = _wanted(options)
        selected = select(wanted)
    except ValueError as error:
        print(f"static: {error}", file=sys.stderr)
        return USAGE
    for line in selected.left_out:
        print(f"static: {line}", file=sys.stderr)
    try:
        folder, records = _compile(selected, wanted, options.store)
    except (Misused, OSError) as error:
        print(f"static: {error}", file=sys.stderr)
        return USAGE
    with keeping(lambda: f"{folder} is complete"):
        _print(folder, records, options)
        return _code(records)


def _print(folder: Path, records: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    print(f"run: {folder}", file=sys.stderr)
    if options.json:
        profiles = ranked(records) if options.sweep else records
        print(json.dumps({"run": folder.name, "path": str(folder), "profiles": profiles}, indent=1))
    elif options.sweep:
        print(ranking(records))
    else:
        _show(folder)


def _compile(
    selected: Selected, wanted: Wanted, store: str | None
) -> tuple[Path, list[dict[str, Any]]]:
    """The run directory and its records, in the order of the jobs."""
    toolchains = read_toolchains(sorted({80, 100, *(job.capability for job in selected.jobs)}))
    # Torch comes with the environment: imported when a wrong option was told already.
    from suites.static.run_files import StaticRun

    done: dict[Any, dict[str, Any]] = {}
    with (
        StaticRun.create(store, toolchains, wanted) as run,
        keeping(lambda: _kept(run, len(selected.jobs))),
    ):
        for job, record in compiled(selected.jobs, toolchains):
            run.append(record)
            done[id(job)] = record
            status = "" if record["status"] == "ok" else f"  {record['status']}"
            counted = f"[{len(done):>{len(str(len(selected.jobs)))}}/{len(selected.jobs)}]"
            elapsed = f"{record['elapsed_s']:.1f} s"
            print(f"{counted} {job.what}  {elapsed}{status}", file=sys.stderr, flush=True)
        run.finish()
        return run.folder, [done[id(job)] for job in selected.jobs]


def _kept(run: StaticRun, asked: int) -> str:
    return f"{run.count} of {asked} profiles are in {run.folder}" if run.count else NOTHING_KEPT


def _show(folder: Path) -> None:
    """The table of a run is drawn in one place: where runs are read."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "results", "show", str(folder)]
    subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, check=False)


def _code(records: Sequence[Mapping[str, Any]]) -> int:
    failed = [r for r in records if r["status"] != "ok"]
    told: dict[tuple[str, str], dict[str, None]] = {}
    for record in failed:
        if record["origin"] is not None:
            key = f"{record['origin']}:{record['kernel']}", record["reasons"][0]
            told.setdefault(key, {})[record["arch"]] = None
    for (kernel, reason), archs in told.items():
        print(f"static: {kernel} for {', '.join(archs)}: {reason}", file=sys.stderr)
    if any(r["origin"] is not None for r in failed):
        return USAGE
    return FAILED if any(r["is_default"] for r in failed) else 0


def _wanted(options: argparse.Namespace) -> Wanted:
    """The options, checked as far as they can be without a kernel.

    Raises:
        ValueError: one has no meaning.
    """
    wanted = Wanted(
        archs=tuple(_listed(options.arch)),
        kernels=tuple(_listed(options.kernel)),
        dtypes=tuple(dict.fromkeys(SHORT_DTYPES.get(n, n) for n in _listed(options.dtype))),
        head_sizes=tuple(_head_size(text) for text in _listed(options.d_h)),
        everything=options.all,
        sweep=_sweep(options.sweep),
        signature=options.signature,
        constants=constants_of(",".join(options.constants)),
    )
    if (wanted.signature or wanted.constants) and not wanted.brought:
        raise ValueError("--signature and --constants are of a kernel of yours: --kernel FILE:NAME")
    return wanted


def _listed(given: Sequence[str]) -> list[str]:
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _head_size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise ValueError(f"--d_h {text}: a whole number from 1 to 256")
    return int(text)


def _sweep(given: Sequence[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for text in given:
        name, is_assigned, values = text.partition("=")
        if not is_assigned or not name.isidentifier() or not values.strip(","):
            raise ValueError(f'--sweep "{text}": write BLOCK_M=64,128')
        found[name] = [value_of(value) for value in values.split(",") if value.strip()]
    return found

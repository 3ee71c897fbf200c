"""`python -m suites`: what measuring can do from the command line."""

from __future__ import annotations

from impls.interface.streams import take_any_sign

# isort: split
import argparse
import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from suites.ab import bisecting
from suites.ab import command as turns
from suites.ab.arguments import AB_HELP, BISECT_HELP
from suites.calibrate import command as calibration
from suites.doctor import command as doctor
from suites.gpu_day import command as gpu_day
from suites.profile import command as profiling
from suites.side_by_side import command as side_by_side
from suites.supervisor import command as supervised

_CEILINGS = """examples:
  python -m suites ceilings
  python -m suites ceilings --threads 2 --fresh --json > ceilings.json

exit codes: 0 measured (what was contended is told, and not kept), 2 usage
"""
_EXAMPLES = """examples:
  python -m suites run heads --launches 5
  python -m suites ab HEAD~1
  python -m suites static --arch sm_90
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; → its exit code: 0 done, 2 usage; `run` and `resume` have more."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["run"]:
        named = side_by_side.device_of(given[1:])
        if named is not None:
            return side_by_side.measured(given[1:], named)
        return supervised.run(given[1:])
    if given[:1] == ["resume"]:
        return supervised.resume(given[1:])
    if given[:1] == ["ab"]:
        return turns.ab(given[1:])
    if given[:1] == ["bisect"]:
        return bisecting.bisect(given[1:])
    if given[:1] == ["calibrate"]:
        return calibration.calibrate(given[1:])
    if given[:1] == ["gpu"]:
        return gpu_day.gpu(given[1:])
    if given[:1] == ["profile"]:
        return profiling.profile(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m suites",
        description="Measure this machine, and read kernels compiled for others.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Most of their options are pytest's: they read them themselves, above.
    commands.add_parser("run", help=supervised.RUN_HELP)
    commands.add_parser("resume", help=supervised.RESUME_HELP)
    commands.add_parser("ab", help=AB_HELP)
    commands.add_parser("bisect", help=BISECT_HELP)
    commands.add_parser("calibrate", help=calibration.HELP)
    commands.add_parser("gpu", help=gpu_day.HELP)
    commands.add_parser("profile", help=profiling.HELP)
    _add_ceilings(commands)
    _add_static(commands)
    _add_doctor(commands)
    for command in commands.choices.values():
        command.description = textwrap.fill(command.description or "", 79)
    options = parser.parse_args(given)
    return options.run(options)


def _add_ceilings(commands: Any) -> None:
    parser = commands.add_parser(
        "ceilings",
        help="measure how fast this machine multiplies and moves bytes (under 10 s, kept a week)",
        description="Measure the ceilings every row is held against: matrix products per dtype and "
        "library, bandwidth per memory level, exponentials. Under 10 s, kept for 7 days.",
        epilog=_CEILINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the record, not the table")
    parser.add_argument("--fresh", action="store_true", help="measure again, whatever is kept")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep them although other programs use the machine, marked as contended",
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads (1)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.set_defaults(run=_ceilings)


def _add_static(commands: Any) -> None:
    from suites.static import command

    parser = commands.add_parser(
        "static",
        help="compile kernels for GPUs that are not here, and read what their code costs",
        description="Compile our Triton kernels, or one of yours, ahead of time: registers, "
        "spills, shared memory, occupancy, the hot loop's instructions and two bounds from "
        "published throughputs. Needs no GPU. The default is the gate's set: every kernel in bf16 "
        "at d_h 64 and 128 with its default block, for sm_80, sm_90 and sm_100.",
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_options(parser)
    parser.set_defaults(run=command.run)


def _add_doctor(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="say what is wrong with this machine for benchmarking, and what to type",
        description="Look at versions, drivers, libraries by one real call each, variables, the "
        "processor, the container, the load and the store. Changes nothing.",
        epilog=doctor.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_options(parser)
    parser.set_defaults(run=doctor.run)


def _ceilings(options: argparse.Namespace) -> int:
    if options.threads < 1:
        print(f"--threads {options.threads}: give 1 or more", file=sys.stderr)
        return 2
    # The allocator is told before torch makes its first tensor.
    from suites.measure import allocator

    allocator.make_steady()
    from impls.interface.device_choice import choose
    from suites.measure.ceilings import ceilings_for

    try:
        chosen = choose(options.device)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.notice:
        print(chosen.notice, file=sys.stderr)
    record = ceilings_for(
        chosen.device,
        options.threads,
        fresh=options.fresh,
        keep_contended=options.keep,
        progress=_show_progress,
    )
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if record["contended"]:
        print(
            f"contended: others used {record['foreign_load']:.0%} of the machine; "
            + ("kept all the same" if options.keep else "not kept (--keep keeps them, marked)"),
            file=sys.stderr,
        )
    print(json.dumps(record, allow_nan=False, indent=1) if options.json else table(record))
    return 0


def table(record: Mapping[str, Any]) -> str:
    """The ceilings as lines of text, scaled for reading; one line per figure and provider."""
    lines = [
        f"{record['device_name']}, {record['device']}, {record['threads']} thread(s), "
        f"clock {record['clock']}, measured {record['measured_utc']}",
        f"{'ceiling':<24}{'best':>10}{'median':>10}  unit     by",
    ]

    def line(name: str, best: float, median: float | None, unit: str, by: str) -> None:
        middle = "" if median is None else f"{median / 1e9:.4g}"
        lines.append(f"{name:<24}{best / 1e9:>10.4g}{middle:>10}  {unit:<9}{by}")

    for dtype, gemm in record["gemm"].items():
        for provider, rate in gemm["providers"].items():
            best, median = rate["flop_per_s"], rate["median_flop_per_s"]
            line(f"gemm {dtype}", best, median, "GFLOP/s", provider)
    for level, bandwidth in record["bandwidth"].items():
        working_set = f"{bandwidth['working_set_bytes'] / 2**20:.3g} MiB"
        for way in ("copy", "read"):
            rate = bandwidth[f"{way}_bytes_per_s"]
            line(f"{way} {level}", rate, None, "GB/s", f"over {working_set}")
    for dtype, exp in record["exp"].items():
        line(f"exp {dtype}", exp["exp_per_s"], exp["median_exp_per_s"], "Gexp/s", "torch.exp")
    sheet = record["datasheet"]
    lines.append(
        "datasheet: none for this device" if sheet is None else f"datasheet: {sheet['source']}"
    )
    return "\n".join(lines)


def _show_progress(what: str) -> None:
    """On a terminal one line that changes; in a log nothing, since it is over in seconds."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    take_any_sign()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has seen enough; the interpreter's last flush must not complain of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        # A full disk under stdout; 1 would say that a result is wrong.
        print(f"python -m suites: {error}", file=sys.stderr)
        code = 5
    sys.exit(code)

"""`python -m suites profile`: its options, what it prints and how it ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

USAGE, INTERRUPTED = 2, 130
NO_CELL = 'name a cell, as in: profile "naive T=1024 H=8 d_h=64"'
HELP = "which kernels one cell's time goes to, what they are and what they move"
_EPILOG = """examples:
  python -m suites profile "naive T=1024 H=8 d_h=64 causal"
  python -m suites profile sdpa_flash decode T_kv=8192 H_kv=8 --out look
  python -m suites profile --impl mykernel.py:attention --problem "T=4096,H=8,d_h=64" --json

CELL is spelled as `reports explain` and `suites ab` spell it: words that only
it has, the beginning of its identity, or an implementation with a whole
problem. It is looked for in all sweeps; with --run in that run. What is
profiled comes after the first call, a proof against float64 and a warm-up;
shares are of the whole call, and what is outside of any kernel is told. Beside
the table it leaves trace.json.gz, for https://ui.perfetto.dev, and
profile.json.

exit codes: 0 profiled, 1 its result was wrong, 2 usage, or no such cell or
several, 5 it cannot run here; 130 Ctrl-C
"""


def profile(arguments: Sequence[str]) -> int:
    """Profile one cell; the table or record goes to stdout → exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.threads < 1:
        print(f"attnbench: --threads {options.threads}: give 1 or more", file=sys.stderr)
        return USAGE
    if not (options.cell or options.impl or options.problem or options.passes):
        print(f"attnbench: {NO_CELL}", file=sys.stderr)
        return USAGE
    # The allocator is told before torch makes its first tensor.
    from suites.measure import allocator

    allocator.make_steady()
    from suites.profile.one_cell import profiled

    try:
        return profiled(options, [argument for argument in arguments if argument != "--json"])
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m suites profile",
        description=HELP[0].upper() + HELP[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("cell", nargs="*", metavar="CELL", help="words that only one cell has")
    option(
        "--impl",
        action="append",
        default=[],
        metavar="NAME|FILE.py:FUNC",
        help="the implementation, as `pytest suites` takes it",
    )
    option("--problem", default="", metavar="SIZES", help='as "T=4096,H=8,d_h=64,causal"')
    option("--passes", default="", metavar="NAME", help="forward, backward, forward_backward")
    option("--run", metavar="RUN", help='a cell of this run: "latest", a name or a path')
    option("--store", metavar="DIR", help="folder of runs (default: results/runs)")
    option("--device", choices=("auto", "cpu", "cuda"), default="auto")
    option("--threads", type=int, default=1, metavar="N", help="CPU threads (default: 1)")
    option("--out", metavar="DIR", help="for trace and record (default: results/profiles/<utc>)")
    option("--json", action="store_true", help="print the record, not the table")
    option("--under-ncu", action="store_true", help=argparse.SUPPRESS)
    return parser

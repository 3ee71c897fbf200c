"""The options of a fleet, beside those of `python -m suites run`: declared and read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

ENGINES = ("ray",)
ALONE = ("address", "accelerator_type", "workers")


@dataclass(frozen=True)
class FleetOptions:
    """Which devices measure.

    Attributes:
        address: of the cluster; None: this machine alone.
        accelerator_type: only GPUs that Ray calls so, such as "H100"; None: all.
        workers: how many devices at most; None: all.
        device: "cpu", "cuda", or "auto": GPUs where there are any.
        threads: CPU threads of a call, and so the cores that a task holds without a GPU.
        store: the folder of runs; None: the checkout's own.
    """

    address: str | None = None
    accelerator_type: str | None = None
    workers: int | None = None
    device: str = "auto"
    threads: int = 1
    store: str | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare them, in a group of their own."""
    option = parser.add_argument_group("a fleet").add_argument
    option(
        "--fleet",
        choices=ENGINES,
        help="measure on many devices, each task holding a whole one: a GPU, or CPU cores",
    )
    option("--address", metavar="ADDRESS", help="of a Ray cluster (default: this machine alone)")
    option("--accelerator-type", metavar="NAME", help="only GPUs of this type, as Ray names it")
    option("--workers", type=int, metavar="N", help="devices at most (default: all there are)")


def read(options: argparse.Namespace, passed_on: Sequence[str]) -> FleetOptions | None:
    """The fleet that was asked for; None where none was.

    `passed_on` are the options of `pytest suites`, of which a fleet must know some.

    Raises:
        ValueError: something given has no meaning.
    """
    given = {name: getattr(options, name) for name in ALONE}
    if options.fleet is None:
        if told := next((name for name, value in given.items() if value is not None), None):
            raise ValueError(f"--{told.replace('_', '-')} is of a fleet: type --fleet ray too")
        return None
    if getattr(options, "plan", False):
        raise ValueError("--plan is of one machine: leave out --fleet, or --plan")
    if options.workers is not None and options.workers < 1:
        raise ValueError(f"--workers {options.workers}: give 1 or more")
    if empty := [name for name in ("address", "accelerator_type") if given[name] == ""]:
        raise ValueError(f"--{empty[0].replace('_', '-')} is empty: give one, or leave it out")
    if (options.address or "").startswith("ray://"):
        raise ValueError(
            f"--address {options.address}: cells stream back to a driver inside the cluster alone: "
            "run this on one of its nodes with --address auto"
        )
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store", default=options.store if "store" in options else None)
    try:
        known, _ = parser.parse_known_args(list(passed_on))
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    if known.threads < 1:
        raise ValueError(f"--threads {known.threads}: give 1 or more")
    return FleetOptions(**given, **vars(known))

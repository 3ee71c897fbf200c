"""What run.json says of a run before its first cell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from suites.measure.journal import utc_now
from suites.measure.samples import SETTINGS_VERSION, Settings
from suites.session import orders
from suites.session.looks import LOOKS
from suites.session.options import Options
from suites.session.plan import Planned


def header(
    run_id: str,
    options: Options,
    settings: Settings,
    *,
    environment: Mapping[str, Any],
    machine_key: str,
    ceilings: Mapping[str, Any],
    plan: Iterable[Planned],
    doubts: Mapping[str, str],
) -> dict[str, Any]:
    """The header of a new run: environment, ceilings, settings and plan, complete in itself."""
    return {
        "schema": 1,
        "run": run_id,
        "created_utc": utc_now(),
        "finished_utc": None,
        "interrupted": False,
        "commit": environment.get("commit"),
        "dirty": environment.get("dirty"),
        "command": "pytest " + shlex.join(sys.argv[1:]),
        "machine_key": machine_key,
        "device": environment["device"],
        "environment": dict(environment),
        "ceilings": dict(ceilings),
        "settings": asdict(settings)
        | {
            "settings_version": SETTINGS_VERSION,
            "looks": LOOKS if orders.read().looks_again else 1,
            "budget": options.budget,
            "seconds": options.seconds,
            "threads": options.threads,
            "flop_convention": options.flop_convention,
            "baseline": options.baseline,
            "brought": list(options.brought),
            "inputs": "normal, mean 0, deviation 1, seed 0",
        },
        "shard": str(options.shard) if options.shard else None,
        "launches": orders.read().launches,
        "doubts": dict(doubts),
        "plan": [p.to_json() for p in plan],
        "counts": {},
    }

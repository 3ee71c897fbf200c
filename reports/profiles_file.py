"""Every figure of every static profile as CSV, a row each."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict

from results.run import Run
from results.static_profile import INSTRUCTION_KINDS, PIPES, StaticProfile, assignments
from results.static_table import notes, reading_order

_OF_PROFILE = ("kernel", "arch", "dtype", "d_h", "constants", "block", "is_default")
_OF_COMPILER = ("triton", "ptxas", "status")
_OF_BOUND = ("of", "overlap_percent", "no_overlap_percent", "limited_by")


def profiles_csv(run: Run) -> str:
    """The profiles in reading order; an empty field is not known, cycles are one SM's."""
    rows = [_row(profile) for profile in reading_order(run.profiles)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(profile: StaticProfile) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(profile, name) for name in _OF_PROFILE}
    row |= {name: assignments(getattr(profile, name)) for name in ("constants", "block")}
    row |= {name: getattr(profile, name) for name in _OF_COMPILER}
    if profile.resources is not None:
        resources = asdict(profile.resources)
        occupancy = resources.pop("occupancy")
        row |= resources | {f"occupancy_{name}": value for name, value in occupancy.items()}
    if profile.bound is not None:
        row |= {f"bound_{name}": getattr(profile.bound, name) for name in _OF_BOUND}
        row |= {f"cycles_{pipe}": profile.bound.cycles.get(pipe) for pipe in PIPES}
    if profile.hot_loop is not None:
        row |= {f"loop_{kind}": profile.hot_loop.mix[kind] for kind in INSTRUCTION_KINDS}
        row["loop_spill_stores"] = profile.hot_loop.spill_stores
        row["loop_spill_loads"] = profile.hot_loop.spill_loads
    return row | {"notes": "; ".join(notes(profile))}

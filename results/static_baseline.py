"""The accepted static profiles: what of each is kept in `results/baselines`, and its files.

A file holds the profiles of one Triton version, sorted, one a line, so that a change of a kernel is
a change of its lines in review. Only what shipped kernels cost with their default blocks is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from results.reading import Place, SchemaError, parse_strict, read_record
from results.schema import SCHEMA_VERSION, check_version
from results.static_profile import (
    INSTRUCTION_KINDS,
    KIND,
    Loop,
    StaticProfile,
    arch_number,
    assignments,
)
from results.static_promises import breaches

FOLDER = Path(__file__).parent / "baselines"


@dataclass(frozen=True)
class Accepted:
    """The gated figures of one profile; names and units as in `results.static_profile`.

    Attributes:
        loop_spill_stores, loop_spill_loads: inside the hot loop.
        mix: of the hot loop, instructions of one warp by kind; a kind that is absent is 0.
        other_loops: instructions of each further innermost loop of the kind, in the code's order.
        overlap_percent, no_overlap_percent, limited_by: the bound, None where there is none.
        breaks: the promises that were broken when it was accepted, knowingly.
    """

    kernel: str
    arch: str
    dtype: str | None
    d_h: int | None
    constants: Mapping[str, Any]
    block: Mapping[str, Any]
    triton: str
    ptxas: str
    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    spill_store_bytes: int
    spill_load_bytes: int
    loop_spill_stores: int
    loop_spill_loads: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    tensor_memory_columns: int
    scratch_bytes: int
    warps: int
    mix: Mapping[str, int] = field(default_factory=dict)
    other_loops: tuple[int, ...] = ()
    overlap_percent: float | None = None
    no_overlap_percent: float | None = None
    limited_by: str | None = None
    breaks: tuple[str, ...] = ()

    @property
    def subject(self) -> tuple[str, str, str | None, int | None, str]:
        """As `StaticProfile.subject`."""
        return (self.kernel, self.arch, self.dtype, self.d_h, assignments(self.constants))

    @property
    def key(self) -> tuple[str, str, str | None, int | None, str, str, str, str]:
        """As `StaticProfile.key`."""
        return (*self.subject, assignments(self.block), self.triton, self.ptxas)


def accepted(profile: StaticProfile) -> Accepted:
    """The gated figures of a profile that is "ok".

    Raises:
        ValueError: it is not.
    """
    resources, loop, bound = profile.resources, profile.hot_loop, profile.bound
    if profile.status != "ok" or resources is None:
        raise ValueError(f"{profile.kernel} {profile.arch} is {profile.status}: nothing to accept")
    own = {f.name for f in fields(Accepted)}
    taken = {name: value for name, value in vars(resources).items() if name in own}
    taken |= {
        name: getattr(profile, name)
        for name in ("kernel", "arch", "dtype", "d_h", "constants", "block", "triton", "ptxas")
    }
    return Accepted(
        **taken,
        loop_spill_stores=loop.spill_stores if loop else 0,
        loop_spill_loads=loop.spill_loads if loop else 0,
        mix=_without_zeros(loop) if loop else {},
        other_loops=tuple(other.instructions for other in profile.other_loops),
        overlap_percent=round(bound.overlap_percent, 1) if bound else None,
        no_overlap_percent=round(bound.no_overlap_percent, 1) if bound else None,
        limited_by=bound.limited_by if bound else None,
        breaks=tuple(breach.promise for breach in breaches(profile)),
    )


def _without_zeros(loop: Loop) -> dict[str, int]:
    return {kind: loop.mix[kind] for kind in INSTRUCTION_KINDS if loop.mix[kind]}


def gated(profiles: Iterable[StaticProfile]) -> list[StaticProfile]:
    """Those that a baseline is of: shipped kernels with the blocks their launchers take."""
    return [p for p in profiles if p.is_default and p.origin is None]


def baseline_file(folder: Path, triton: str) -> Path:
    """Where the profiles of one Triton version are kept."""
    return folder / f"static-triton-{triton}.json"


def read_baselines(folder: Path = FOLDER) -> list[Accepted]:
    """Everything accepted, over all files of the folder; none where there is no file.

    Raises:
        SchemaError: a file does not say what the schema says, or says one thing twice.
    """
    found: dict[tuple, Accepted] = {}
    for file in sorted(folder.glob("static-*.json")):
        for line in read_baseline(file):
            if line.key in found:
                raise SchemaError(f"{file}: a second line for {' '.join(map(str, line.key))}")
            found[line.key] = line
    return list(found.values())


def read_baseline(file: Path) -> list[Accepted]:
    """The profiles of one file.

    Raises:
        SchemaError: it does not say what the schema says.
    """
    place = Place(str(file))
    try:
        value = parse_strict(file.read_text(encoding="utf-8"), place)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"{place}: not JSON: {error}") from None
    check_version(value, place)
    lines = value.get("profiles")
    if not isinstance(lines, list):
        raise SchemaError(f"{place.at('profiles')}: missing, expected a list")
    return [read_record(Accepted, v, place.at(f"profiles.{i}")) for i, v in enumerate(lines)]


def write_baselines(
    folder: Path, before: Sequence[Accepted], after: Sequence[Accepted], source: Mapping[str, Any]
) -> list[Path]:
    """Write the file of every Triton version whose lines change → which were written."""
    written: list[Path] = []
    for triton in sorted({one.triton for one in after}):
        old, new = ([one for one in side if one.triton == triton] for side in (before, after))
        if sorted(map(_line, old)) == sorted(map(_line, new)):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        file = baseline_file(folder, triton)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(baseline_text(new, source), encoding="utf-8")
        unfinished.replace(file)
        written.append(file)
    return written


def baseline_text(lines: Sequence[Accepted], source: Mapping[str, Any]) -> str:
    """A file's text: a line that says where it is from, then a line a profile, sorted."""
    head = {"schema": SCHEMA_VERSION, "kind": KIND, "accepted": dict(source)}
    start = json.dumps(head, ensure_ascii=False)[:-1]
    body = ",\n".join(_line(one) for one in sorted(lines, key=_order))
    return f'{start}, "profiles": [\n{body}\n]}}\n'


def _line(one: Accepted) -> str:
    record = {name: value for name, value in asdict(one).items() if value not in ((), None)}
    # The names in a run's journal come in whatever order the launcher has them.
    for name in ("constants", "block"):
        record[name] = dict(sorted(record[name].items()))
    # dtype and d_h are part of the key: a brought kernel's null is said.
    record = {"kernel": one.kernel, "arch": one.arch, "dtype": one.dtype, "d_h": one.d_h} | record
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def _order(one: Accepted) -> tuple:
    sizes = (one.dtype or "", one.d_h or 0, assignments(one.constants), assignments(one.block))
    return (one.kernel, arch_number(one.arch), one.arch, *sizes, one.triton, one.ptxas)

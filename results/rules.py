"""What is asked of which cell, in `results/gate.toml`: thresholds, tiers, waivers, removals."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from results.plan import Plan
from results.thresholds import Threshold, ThresholdError, parse_threshold

FILE = Path(__file__).parent / "gate.toml"
TIERS = ("blocking", "informational")
_THRESHOLD, _CUMULATIVE = parse_threshold("+3%"), parse_threshold("+5%")
_CUDA_FLOOR, _PLAN = parse_threshold("1us"), Plan()
# One launch a side tells no spread to screen by, and none confirms nothing.
_POINTLESS = {("screen", 1), ("confirm", 0)}
_LEVELS = ("alpha", "suspect_p", "suite_p")


class RulesError(ValueError):
    """The rules file does not say what it should; the message has file, entry and a remedy."""


@dataclass(frozen=True)
class CellRule:
    """What is asked of the cells whose name a pattern fits; None: as the defaults have it."""

    pattern: str
    threshold: Threshold | None = None
    cumulative: Threshold | None = None
    tier: str | None = None


@dataclass(frozen=True)
class Waiver:
    """A regression that is known, why it may stay, and the last day on which it may."""

    pattern: str
    reason: str
    expires: datetime.date


@dataclass(frozen=True)
class Removal:
    """Cells that may go away, and why."""

    pattern: str
    reason: str


@dataclass(frozen=True)
class Rules:
    """The rules of one file. Of several entries that fit a cell the last one counts.

    Attributes:
        threshold: the slowdown against the base that fails.
        cumulative: the slowdown against the oldest baseline that fails.
        cuda_floor: no smaller change is named on a CUDA clock, whose events resolve about 0.5 µs.
        plan: launches and levels; see `results.plan.Plan`.
    """

    threshold: Threshold = _THRESHOLD
    cumulative: Threshold = _CUMULATIVE
    cuda_floor: Threshold = _CUDA_FLOOR
    tier: str = "blocking"
    plan: Plan = _PLAN
    cells: tuple[CellRule, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    expected_removed: tuple[Removal, ...] = ()

    def threshold_of(self, name: str, *, cumulative: bool = False) -> Threshold:
        """The slowdown that fails for the cell of this name."""
        default = self.cumulative if cumulative else self.threshold
        given = [r.cumulative if cumulative else r.threshold for r in self._fitting(name)]
        return next((one for one in reversed(given) if one is not None), default)

    def tier_of(self, name: str) -> str:
        """ "blocking", or "informational": shown and never failing."""
        given = [rule.tier for rule in self._fitting(name)]
        return next((one for one in reversed(given) if one is not None), self.tier)

    def waiver_of(self, name: str, today: datetime.date) -> tuple[str | None, str | None]:
        """Why a regression of the cell may stay, and else what is amiss with its waiver."""
        fitting = [w for w in self.waivers if fnmatchcase(name, w.pattern)]
        for waiver in fitting:
            if today <= waiver.expires:
                return f"{waiver.reason} (until {waiver.expires})", None
        note = f"its waiver expired on {fitting[-1].expires}" if fitting else None
        return None, note

    def why_removed(self, name: str) -> str | None:
        """Why the cell may go away, where it may."""
        fitting = [r.reason for r in self.expected_removed if fnmatchcase(name, r.pattern)]
        return fitting[-1] if fitting else None

    def _fitting(self, name: str) -> list[CellRule]:
        return [rule for rule in self.cells if fnmatchcase(name, rule.pattern)]


def read_rules(file: Path | None = None) -> Rules:
    """The rules of a file, by default those of this checkout.

    Raises:
        RulesError: no such file, not TOML, an unknown key, an ambiguous threshold, a waiver
            without a reason.
        OSError: it cannot be read.
    """
    file = file or FILE
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise RulesError(f"{file}: no such file: --rules takes one like {FILE.name}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RulesError(f"{file}: not TOML: {error}") from None
    try:
        return _rules(tables)
    except (RulesError, ThresholdError) as error:
        raise RulesError(f"{file}: {error}") from None


def _rules(tables: Mapping[str, Any]) -> Rules:
    lists = {"cells": CellRule, "waivers": Waiver, "expected_removed": Removal}
    _known("the file", tables, {"defaults", "plan", *lists})
    defaults = _typed("defaults", tables.get("defaults", {}), dict)
    _known("[defaults]", defaults, {"threshold", "cumulative", "cuda_floor", "tier"})
    plan = _typed("plan", tables.get("plan", {}), dict)
    _known("[plan]", plan, {one.name for one in fields(Plan)})
    for key, value in plan.items():
        kind = int if isinstance(getattr(_PLAN, key), int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind) or value < 0:
            raise RulesError(f"[plan]: {key} = {value!r}: write {key} = {getattr(_PLAN, key)}")
        if (key, value) in _POINTLESS or (key in _LEVELS and not 0 < value < 1):
            raise RulesError(
                f"[plan]: {key} = {value!r} shows nothing: screen 0 or 2 and more, confirm 1 or "
                "more, alpha and each p between 0 and 1"
            )
    entries: dict[str, Any] = {
        name: tuple(_entry(name, cls, one) for one in _typed(name, tables.get(name, []), list))
        for name, cls in lists.items()
    }
    return Rules(**_values("[defaults]", defaults), plan=Plan(**plan), **entries)


def _entry(name: str, cls: type, given: Any) -> Any:
    where = f"[[{name}]]"
    given = _typed(where, given, dict)
    names = {one.name for one in fields(cls)}
    _known(where, given, names)
    required = names if cls is not CellRule else {"pattern"}
    for key in sorted(required):
        if not given.get(key):
            example = {"expires": "expires = 2027-01-31", "reason": 'reason = "…"'}
            todo = example.get(key, 'pattern = "sdpa_flash * backward *"')
            raise RulesError(f"{where} {given.get('pattern', '')}: no {key}: write {todo}")
    return cls(**_values(where, given))


def _values(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(given)
    for key in ("threshold", "cumulative", "cuda_floor"):
        if key in values:
            values[key] = parse_threshold(values[key])
    if values.get("tier", TIERS[0]) not in TIERS:
        raise RulesError(f'{where}: tier "{values["tier"]}": one of {", ".join(TIERS)}')
    expires = values.get("expires")
    if expires is not None and type(expires) is not datetime.date:
        raise RulesError(f"{where}: expires {expires!r} is no date: write expires = 2027-01-31")
    return values


def _known(where: str, given: Mapping[str, Any], names: set[str]) -> None:
    unknown = sorted(set(given) - names)
    if unknown:
        raise RulesError(f"{where}: {unknown[0]} is not known: {', '.join(sorted(names))}")


def _typed(where: str, given: Any, kind: type) -> Any:
    if not isinstance(given, kind):
        raise RulesError(f"{where}: expected a {'table' if kind is dict else 'list of tables'}")
    return given

"""The conformance run: every case tried on one implementation, against float64."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from impls.interface import torch_state
from impls.interface.attention import Implementation
from impls.interface.availability import version_of
from impls.interface.conformance_cases import Case, cases
from impls.interface.conformance_memory import memory_outcomes
from impls.interface.conformance_properties import (
    bitwise_repeatable,
    fallback,
    masked_garbage_safe,
)
from impls.interface.conformance_trial import Outcome, Trial


@dataclass(frozen=True)
class Conformance:
    """What a conformance run found of one implementation.

    `where` is "device" or "interpreter". `properties` are measured, neither right nor wrong:
    masked_garbage_safe (NaN in a key that is masked out leaves the other rows right),
    bitwise_repeatable (two calls give the same bits), ran (what a profile of a call shows).
    """

    implementation: str
    version: str
    device: str
    where: str
    outcomes: tuple[Outcome, ...]
    properties: dict[str, str] = field(default_factory=dict)
    elapsed_s: float = 0.0

    @classmethod
    def failed(
        cls, implementation: Implementation, device: str, case: str, why: str, where: str = "device"
    ) -> Conformance:
        """The run of what could not be tried at all: one check, and it is wrong."""
        outcome = Outcome(case, "result", "wrong", (why,))
        version = version_of(implementation)
        return cls(implementation.name, version, device, where, (outcome,))

    def of(self, status: str) -> list[Outcome]:
        """The outcomes with this status."""
        return [outcome for outcome in self.outcomes if outcome.status == status]

    @property
    def ok(self) -> bool:
        """Nothing is wrong and something passed: an implementation that refuses all proves none."""
        return not self.of("wrong") and bool(self.of("passed"))

    def to_json(self) -> dict[str, Any]:
        """The record that `from_json` reads; passed checks are counted, the others listed."""
        return {
            "implementation": self.implementation,
            "version": self.version,
            "device": self.device,
            "where": self.where,
            "ok": self.ok,
            "outcomes": [
                {
                    "case": o.case,
                    "ask": o.ask,
                    "status": o.status,
                    "reasons": list(o.reasons),
                    "check": o.check,
                }
                for o in self.outcomes
            ],
            "properties": self.properties,
            "elapsed_s": round(self.elapsed_s, 3),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Conformance:
        """The run that `to_json` wrote, for one made in a child process."""
        outcomes = tuple(
            Outcome(o["case"], o["ask"], o["status"], tuple(o["reasons"]), o["check"])
            for o in record["outcomes"]
        )
        kept = ("implementation", "version", "device", "where", "properties", "elapsed_s")
        return cls(outcomes=outcomes, **{name: record[name] for name in kept})


def conformance(
    implementation: Implementation,
    device: str,
    *,
    where: str = "device",
    matrix: Sequence[Case] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Conformance:
    """Try the matrix on one implementation that is available on `device`.

    An implementation that compiles for each problem is tried on the core of the matrix, the same
    compiled call on many values. `progress(done, all)` is called after each check.
    """
    started = time.perf_counter()
    matrix = cases() if matrix is None else matrix
    mine = [(case, ask) for case in matrix for ask in case.asks]
    if implementation.needs_compiler:
        mine = _compiling_least([(case, ask) for case, ask in mine if case.core])
    trial = Trial(implementation, device, where)
    outcomes: list[Outcome] = []
    for i, (case, ask) in enumerate(mine):
        outcomes.append(trial.outcome(case, ask))
        if progress is not None:
            progress(i + 1, len(mine))
    with torch_state.kept():
        in_memory = memory_outcomes(trial)
        fell_back, ran = fallback(trial)
        properties = {
            "masked_garbage_safe": masked_garbage_safe(trial),
            "bitwise_repeatable": bitwise_repeatable(trial),
            "ran": ran,
        }
    return Conformance(
        implementation.name,
        version_of(implementation),
        device,
        where,
        (*outcomes, *in_memory, *fell_back),
        properties,
        time.perf_counter() - started,
    )


def _compiling_least(mine: list[tuple[Case, str]]) -> list[tuple[Case, str]]:
    """The same checks, ordered so that each problem is compiled once per ask.

    An implementation may keep only its latest compiled function: one ask after another of each
    case would compile anew for every check.
    """
    problems = list(dict.fromkeys(case.problem for case, _ in mine))
    asks = ("output", "gradients", "lse")
    return sorted(mine, key=lambda one: (problems.index(one[0].problem), asks.index(one[1])))

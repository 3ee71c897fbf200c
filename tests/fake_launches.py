"""Run folders of several launches, from arrays of one number per launch and cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from impls.interface.problem import Problem
from tests.fake_cells import cell, timing_record
from tests.fake_run import write_run
from tests.launch_data import Floats

NAMES = ("naive T=63,H=4,d_h=40", "chunked T=63,H=4,d_h=40", "sdpa_flash T=128,H=4,d_h=40,causal")


def noisy(
    launches: int, cells: int = 3, *, seed: int = 0, noise: float = 0.01, base_s: float = 1e-3
) -> Floats:
    """Times of unchanged cells, (launches, cells) seconds."""
    rng = np.random.default_rng(seed)
    return base_s * np.exp(noise * rng.standard_normal((launches, cells)))


def records(times_s: Floats, names: Sequence[str] = NAMES, first_launch: int = 1) -> list[dict]:
    """A journal line for each launch and cell; NaN is not measured. `time_s` is the quartile."""
    found = []
    for launch, row in enumerate(times_s, start=first_launch):
        for name, time_s in zip(names, row, strict=True):
            implementation, problem = name.split(" ")
            if not np.isnan(time_s):
                timing = timing_record(float(time_s) * 1.005) | {"q1_s": float(time_s)}
                line = cell(implementation, Problem.parse(problem), float(time_s), launch=launch)
                found.append(line | {"timing": timing})
    return found


def write_side(
    store: Path,
    times_s: Floats,
    names: Sequence[str] = NAMES,
    *,
    day: int = 1,
    commit: str = "1234567",
    machine_key: str = "cpu-0123456789ab",
    change: Callable[[dict], None] | None = None,
    alter: Callable[[list[dict]], list[dict]] | None = None,
) -> Path:
    """A run of these launches; `change` may alter its run.json, `alter` its journal lines."""
    lines = records(times_s, names)
    return write_run(
        store,
        records=alter(lines) if alter else lines,
        created=f"202612{day:02d}T193000Z",
        commit=commit,
        machine_key=machine_key,
        change=change,
    )


def problem_names(cases: Sequence[str]) -> list[str]:
    """The names of tests/data/launches.npz, "sdpa-math-T16-H1-d16", as a name of `records`."""
    found = []
    for case in cases:
        who, T, H, d = str(case).rsplit("-", 3)
        found.append(f"{who.replace('-', '_')} T={T[1:]},H={H[1:]},d_h={d[1:]}")
    return found

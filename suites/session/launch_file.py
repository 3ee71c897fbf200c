"""A launch as pytest-benchmark writes it: its own JSON schema, strict, beside the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suites.measure.atomic_file import finite, write_json
from suites.measure.evidence import thin

MOST_SAMPLES = 1000


def write_launch(config: pytest.Config, folder: Path, launch: int = 1) -> None:
    """Write `launch-<n>.json` with every recorded cell; nothing when none was recorded.

    Other tools that read pytest-benchmark's files read this one. Values that are not finite
    become null: bare NaN is no JSON. Of a trivial test's hundred thousand rounds a thousand stay.
    """
    session: Any = config._benchmarksession  # type: ignore[attr-defined]  # set by the plugin
    if not session.benchmarks:
        return
    path = folder / f"launch-{launch}.json"
    while path.exists():
        launch += 1
        path = folder / f"launch-{launch}.json"
    hook: Any = config.hook
    output = hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=session.benchmarks,
        include_data=True,
        machine_info=session.get_machine_info(),
        commit_info=hook.pytest_benchmark_generate_commit_info(config=config),
    )
    for entry in output["benchmarks"]:
        entry["stats"]["data"] = thin(entry["stats"]["data"], MOST_SAMPLES)
    write_json(path, finite(output)[0])

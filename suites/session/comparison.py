"""pytest-benchmark's own comparison, where it would compare nothing and be green all the same."""

from __future__ import annotations

from typing import Any

import pytest

from suites.session.selection import already_asked


def prepare(config: pytest.Config) -> None:
    """Refuse a comparison that compares nothing; tell of a first run, which has none yet.

    pytest-benchmark says so at its end, in a traceback, and with exit code 0.

    Raises:
        pytest.UsageError: nothing is timed, or what is named is not there.
    """
    benchmarks = _benchmarks(config)
    if benchmarks is None:
        return
    if benchmarks.disabled or benchmarks.skip:
        raise pytest.UsageError(
            "attnbench: 0 cells would be compared: --benchmark-disable and --benchmark-skip time "
            "nothing; leave them out, or --benchmark-compare-fail"
        )
    if not benchmarks.compare:
        raise pytest.UsageError(
            "attnbench: --benchmark-compare-fail compares with what --benchmark-compare names, and "
            "alone with nothing: give both"
        )
    if benchmarks.compared_mapping:
        return
    if benchmarks.compare is not True:
        raise pytest.UsageError(
            f"attnbench: --benchmark-compare={benchmarks.compare}: nothing that was saved is "
            f"called so in {benchmarks.storage}"
        )
    benchmarks.compare_fail = []
    _tell(config, "no baseline: nothing was saved yet. --benchmark-autosave makes this run one")


def finish(session: pytest.Session) -> None:
    """Let a session fail whose cells are none of those that it was to be compared with."""
    benchmarks = _benchmarks(session.config)
    if benchmarks is None or session.exitstatus != pytest.ExitCode.OK:
        return
    names = {one.fullname for one in benchmarks.benchmarks if one}
    if not any(names & {*saved} for saved in (benchmarks.compared_mapping or {}).values()):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        _tell(session.config, "0 cells were compared: what was saved has none of these")


def _benchmarks(config: pytest.Config) -> Any:
    """pytest-benchmark's session where cells are measured and a comparison may fail them."""
    benchmarks = getattr(config, "_benchmarksession", None)
    if already_asked(config) is None or not getattr(benchmarks, "compare_fail", None):
        return None
    return benchmarks


def _tell(config: pytest.Config, text: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"attnbench: {text}")

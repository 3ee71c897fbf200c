"""Wiring only: pytest's hooks, each handing over to where its work is done."""

from __future__ import annotations

from typing import Any

import pytest

from impls.interface.streams import take_any_sign
from suites.session import comparison, options, selection, sink, warnings_of_others, wiring


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--impl`, `--problem` and the rest."""
    options.add(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make pytest-benchmark the sink of finished cells."""
    # Where a sign cannot be encoded pytest writes a whole table as one line of escapes.
    take_any_sign()
    sink.configure(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say at once which of pytest-benchmark's options cells do without."""
    return sink.inert(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Refuse options that have no meaning before anything is collected."""
    selection.prepare(session.config)
    comparison.prepare(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Turn the series of a bench file into cells."""
    if "cell" in metafunc.fixturenames:
        selection.parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Measure a cell once, whichever suites have it."""
    selection.drop_duplicates(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session):
    """Settle machine, ceilings and plan before the first cell; look again after the last."""
    with warnings_of_others.shown(session.config):
        wiring.begin(session)
        result = yield
        wiring.look_again(session)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Write the journal line of a cell whose call raised."""
    report = yield
    return wiring.conclude(item, call, report)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    """A line of its own for a finished cell, in place of pytest's dot."""
    return wiring.status_of(report, config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the run's end, also after Ctrl-C."""
    wiring.finish(session, exitstatus)
    comparison.finish(session)


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter):
    """End with the table of the run and how to go on, also where a comparison failed."""
    try:
        return (yield)
    finally:
        _end(terminalreporter)


def _end(terminalreporter: pytest.TerminalReporter) -> None:
    folder = wiring.finished_run(terminalreporter.config)
    if folder is not None:
        from reports.table import terminal
        from results.store import load_run

        terminalreporter.section("attnbench")
        terminalreporter.write_line(
            terminal(load_run(folder), wiring.table_width(terminalreporter))
        )
        terminalreporter.write_line(wiring.next_step(terminalreporter.config))


def pytest_benchmark_generate_commit_info(config: pytest.Config) -> dict[str, object]:
    """The commit of the checkout, not of the current folder."""
    return sink.commit_info()


@pytest.hookimpl(tryfirst=True)
def pytest_benchmark_group_stats(
    config: pytest.Config, benchmarks: list[Any], group_by: str
) -> list[Any]:
    """Group whatever is there: a test beside our cells need not have their parameters."""
    return sink.groups(config, benchmarks, group_by)

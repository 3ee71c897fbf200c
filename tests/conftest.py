"""What tests of several subjects share: one thread, run folders by hand, time by hand."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.fake_run import write_run
from tests.fake_time import FakeTime

# What a module of tests has by name if its tests start processes.
_STARTERS = {"subprocess", "run_interpreted", "run_suites", "Turning"}


def pytest_configure() -> None:
    """The same result on every machine, however busy.

    One thread, here and in child processes: what tests compute is so small that threads mostly
    wait for one another, and on a shared machine two took seven times as long as one. hypothesis
    draws the same examples every time, and none is too slow for it.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("repeatable", derandomize=True, database=None, **patient)
    settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker ends alone with one of them.

    They are those with a test that is slow, and those that start processes.
    """
    long = {item.path for item in items if item.get_closest_marker("slow") or _starts(item)}
    items.sort(key=lambda item: item.path not in long)


def _starts(item: pytest.Item) -> bool:
    module = item.getparent(pytest.Module)
    return module is not None and not _STARTERS.isdisjoint(vars(module.obj))


@pytest.fixture
def fake_time(monkeypatch) -> FakeTime:
    """The time of everything that plans, measures or takes samples: it passes by calls alone."""
    from suites.measure import cpu_clock, cuda_clock, executed
    from suites.session import call, cell, speeds

    fake = FakeTime()
    for module in (cpu_clock, cuda_clock, executed, call, cell, speeds):
        monkeypatch.setattr(module, "time", fake)
    return fake


@pytest.fixture
def run_directory(tmp_path):
    """`run_directory(records=…, created=…, …)` writes a small run below tmp_path/"runs" → Path.

    See `tests.fake_run.write_run` for the keywords, and `tests.fake_run.cell` for one record.
    """

    def write(**keywords):
        return write_run(tmp_path / "runs", **keywords)

    return write


@pytest.fixture(scope="session")
def report(tmp_path_factory) -> Path:
    """The page of a run with awkward names, as a file."""
    from tests.browsing import awkward_report

    return awkward_report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, see `tests.chromium`."""
    from tests.chromium import Chromium

    started = Chromium()
    yield started
    started.close()


@pytest.fixture
def page(browser, report):
    """The report, opened in a window of usual size; nothing may be said or fetched meanwhile."""
    browser.size(1280)
    browser.media()
    browser.console.clear()
    browser.requests.clear()
    browser.open(report)
    yield browser
    assert browser.console == []
    assert {r.partition("#")[0] for r in browser.requests} <= {report.as_uri(), "about:blank"}

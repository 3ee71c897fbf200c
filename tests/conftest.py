"""What tests of several subjects share: one thread, and run folders written by hand."""

import os

import pytest
import torch

from tests.fake_run import write_run


def pytest_configure() -> None:
    """One thread, here and in child processes.

    What tests compute is so small that threads mostly wait for one another: where the machine is
    shared, two took seven times as long as one.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@pytest.fixture
def run_directory(tmp_path):
    """`run_directory(records=…, created=…, …)` writes a small run below tmp_path/"runs" → Path.

    See `tests.fake_run.write_run` for the keywords, and `tests.fake_run.cell` for one record.
    """

    def write(**keywords):
        return write_run(tmp_path / "runs", **keywords)

    return write

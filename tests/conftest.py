"""What tests of several subjects share: run folders written by hand."""

import pytest

from tests.fake_run import write_run


@pytest.fixture
def run_directory(tmp_path):
    """`run_directory(records=…, created=…, …)` writes a small run below tmp_path/"runs" → Path.

    See `tests.fake_run.write_run` for the keywords, and `tests.fake_run.cell` for one record.
    """

    def write(**keywords):
        return write_run(tmp_path / "runs", **keywords)

    return write

"""`python -m suites static` that ends early: one line, an exit code, and no run of nothing."""

from __future__ import annotations

import os
import signal
import time

import pytest

from results.store import load_run
from suites.__main__ import main
from suites.static import command
from tests.fake_profiles import profile as record
from tests.test_static_suite import DOCUMENTED, TOOLCHAINS
from tests.test_static_suite import mine as mine


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({3: "*fp32,*fp32,i32"}, "add has 4 arguments to be typed"),
        ({3: "*fp32,*fp32,*fp32,i33"}, 'n: "i33" is no type'),
        ({5: "num_warps=4"}, "--constants BLOCK=…"),
        ({1: "add.py:ad"}, 'has no "ad"'),
    ],
)
def test_a_wrong_word_leaves_no_run_that_would_be_the_latest(mine, capsys, changed, told):
    pytest.importorskip("triton")
    asked = [changed.get(n, word) for n, word in enumerate(DOCUMENTED)]
    assert main(["static", *asked, "--arch", "sm_90"]) == 2
    assert told in capsys.readouterr().err
    assert list((mine.parent / "runs").glob("*")) == []


@pytest.mark.parametrize(
    ("number", "code", "is_one_done"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGTERM, 143, False),
        (signal.SIGINT, 130, True),
    ],
)
def test_an_interruption_is_one_line_and_a_code(
    mine, monkeypatch, capsys, number, code, is_one_done
):
    """Where kernels are compiled; what is finished is kept, and nothing makes no run."""
    pytest.importorskip("triton")

    def interrupted(jobs, toolchains):
        if is_one_done:
            yield jobs[0], record(elapsed_s=0.1)
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr(command, "compiled", interrupted)
    monkeypatch.setattr(command, "read_toolchains", lambda _: TOOLCHAINS)
    assert main(["static", *DOCUMENTED]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    found = list((mine.parent / "runs").glob("*/*"))
    if is_one_done:
        assert last == f"static: interrupted: 1 of 3 profiles are in {found[0]}"
        assert load_run(found[0]).state == "interrupted"
    else:
        assert last == "static: interrupted: nothing was compiled, nothing is kept"
        assert found == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "as it was before"

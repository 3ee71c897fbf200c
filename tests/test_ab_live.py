"""`suites ab` over real children: nothing changed, one kernel of three slower, one gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.turning import ROOT, Turning

pytestmark = pytest.mark.slow

KERNELS = """
import time

from torch.nn.functional import scaled_dot_product_attention


def first(q, k, v):
    return scaled_dot_product_attention(q, k, v)


def second(q, k, v):
    began = time.process_time()
    out = scaled_dot_product_attention(q, k, v)
    end = began + {times} * (time.process_time() - began)
    while time.process_time() < end:
        pass
    return out


def {third}(q, k, v):
    return scaled_dot_product_attention(q, k, v)
"""
PROBLEM = ("--problem", "T=300,H=4,d_h=40")
# A noisy moment gives no row: a long look, which ends as soon as it is precise, gets over it.
PATIENT = ("--benchmark-max-time", "0.4")
# 1 / C(8, 3) is below 0.1 / 3: of five launches a side two may be flagged, of four one. A fifth is
# asked for, so that so large an alpha names no cell for nothing.
ALPHA, THRESHOLD = "alpha = 0.1\n", '[defaults]\nthreshold = "+20%"\n'
BROUGHT = ("--impl", "mylib:first,mylib:second,mylib:third", *PROBLEM, *PATIENT)


@pytest.fixture
def turning(tmp_path, monkeypatch):
    """A repository of three kernels, judged by five launches a side."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    turning = Turning(tmp_path, confirm=5, more=ALPHA + THRESHOLD)
    commit(turning, times=1.0, third="third")
    return turning


def commit(turning, **changed):
    (turning.repo / "mylib.py").write_text(KERNELS.format(**changed), encoding="utf-8")
    turning.git("add", "-A")
    turning.git("commit", "-qm", "kernels")


def measured(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "suites", "ab", *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_a_kernel_that_spins_half_as_long_again_fails_alone_and_by_name(turning):
    commit(turning, times=1.5, third="third")
    before = turning.state
    code, told, errors = measured(*turning.arguments("HEAD~1", *BROUGHT))
    assert code == 1, errors
    slower = {one["implementation"]: one for one in told["cells"] if one["verdict"] == "regressed"}
    assert set(slower) == {"second"} and told["compared"] == 3
    assert 1.35 < slower["second"]["ratio"] < 1.65
    assert turning.state == before


def test_a_kernel_that_is_gone_does_not_pass(turning):
    commit(turning, times=1.0, third="thirteenth")
    before = turning.state
    code, _, errors = measured(*turning.arguments("HEAD~1", *BROUGHT))
    assert code == 4 and "head cannot be measured as base was" in errors and "third" in errors
    assert turning.state == before


def test_a_revision_of_this_checkout_is_as_good_as_itself(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    rules = tmp_path / "rules.toml"
    rules.write_text(f"[plan]\nscreen = 0\nconfirm = 4\n{ALPHA}{THRESHOLD}", encoding="utf-8")
    cells = ("--impl", "naive,chunked,sdpa_flash", *PROBLEM, *PATIENT)
    where = ("--store", str(tmp_path), "--rules", str(rules))
    code, told, errors = measured("HEAD", "HEAD", *cells, *where)
    assert code == 0, errors
    # A busy moment may flag every row of a cell: that is told, and nothing else.
    assert told["compared"] and set(told["counts"]) <= {"unchanged", "inconclusive", "incomparable"}

"""A dtype and a length are taken as people write them, and kept under one name."""

import pytest

from impls.__main__ import main
from impls.interface.problem import Problem
from impls.interface.static_kernel import ELEMENT_BYTES
from suites.__main__ import main as measuring
from suites.static import command
from suites.static.selection import Wanted, select
from tests.test_options import read

SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@pytest.mark.parametrize(("short", "full"), SHORT.items())
def test_a_short_dtype_is_the_same_problem(short, full):
    asked = Problem.parse(f"T=64,H=2,d_h=16,{full}")
    for word in (short, f"dtype={short}"):
        assert Problem.parse(f"T=64,H=2,d_h=16,{word}") == asked
    assert asked.id.endswith(f",{full}")
    assert read("--dtype", short).dtypes == (full,)
    with pytest.raises(ValueError, match="dtype is given twice"):
        Problem.parse(f"T=64,H=2,d_h=16,{short},{full}")


def test_a_dtype_of_two_names_is_measured_once():
    assert read("--dtype", "bf16,float32,bfloat16").dtypes == ("bfloat16", "float32")


def test_a_length_is_written_with_k_and_M_of_1024():
    asked = Problem.parse("T_q=4096,T_kv=2097152,H=8,d_h=64,causal,window=1024")
    assert Problem.parse("T_q=4k,T_kv=2M,H=8,d_h=64,causal,window=1k") == asked
    for wrong in ("4.5k", "4kb", "k", "-4k", "4g", "4 k"):
        with pytest.raises(ValueError, match=f"T={wrong} in .* is not a whole number"):
            Problem.parse(f"T={wrong},H=8,d_h=64")


def test_the_cost_of_a_layer_takes_either_name(capsys):
    told = []
    for dtype in ("bf16", "bfloat16"):
        assert (
            main(["cost", "--model", "llama-2-70b", "--T", "4k", "--dtype", dtype, "--json"]) == 0
        )
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


@pytest.mark.parametrize("names", [SHORT.keys(), SHORT.values(), [*SHORT, *SHORT.values()]])
def test_a_static_run_takes_either_name(monkeypatch, names):
    asked = []
    # Nothing is compiled: what was asked for is refused when it was read.
    monkeypatch.setattr(
        command, "select", lambda wanted: asked.append(wanted) or select(Wanted(archs=("x",)))
    )
    assert measuring(["static", "--dtype", ",".join(names)]) == 2
    assert asked[0].dtypes == tuple(ELEMENT_BYTES)

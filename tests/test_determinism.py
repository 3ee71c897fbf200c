"""Whether gradients repeat: measured on kernels whose backward is made to differ, or not."""

from __future__ import annotations

import pytest
import torch

from impls.interface.problem import Problem
from impls.interface.registry import implementations
from reports.columns import columns
from reports.points_file import points_csv
from reports.table import terminal
from results.reading import Place
from results.schema import read_cell
from results.store import load_run
from suites.session.cell import measure_cell
from suites.session.subject import SubjectMemory
from tests.fake_cells import cell
from tests.test_cell import CONDITIONS, PROBLEM, cell_of, fake

NAIVE = implementations()["naive"]
BACKWARD = ["backward", "forward_backward"]


def wavering(which: int):
    """An implementation whose every other backward changes the last bits of one gradient."""

    class Wavering(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, tensor):
            return tensor.clone()

        @staticmethod
        def backward(ctx, *grads):
            Wavering.calls += 1
            return grads[0] * (1 + 2**-22 * (Wavering.calls % 2))

    def forward(q, k, v, **arguments):
        qkv = [q, k, v]
        qkv[which] = Wavering.apply(qkv[which])
        return NAIVE.forward(*qkv, **arguments)

    return fake(forward)


@pytest.mark.parametrize("pass_", BACKWARD)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_gradient_that_differs_in_its_last_bits_does_not_repeat_and_is_not_wrong(pass_, which):
    """Case D01, flash-attention#414: dq differs from run to run, even where told not to."""
    found = measure_cell(cell_of(wavering(which), pass_=pass_), CONDITIONS, SubjectMemory())
    names = ("dq", "dk", "dv")
    assert found["status"] == "ok"
    assert found["repeats"] == {name: name != names[which] for name in names}


@pytest.mark.parametrize("name", ["naive", "sdpa_flash"])
@pytest.mark.parametrize("pass_", BACKWARD)
def test_gradients_of_a_sum_in_one_order_repeat(name, pass_):
    one = cell_of(implementations()[name], PROBLEM.with_(T_q=65, H_kv=4), pass_)
    found = measure_cell(one, CONDITIONS, SubjectMemory())
    assert found["repeats"] == {"dq": True, "dk": True, "dv": True}


def test_a_pass_without_gradients_has_none_to_repeat():
    assert measure_cell(cell_of(NAIVE), CONDITIONS, SubjectMemory())["repeats"] is None


DIFFERING = {"dq": False, "dk": True, "dv": False}


@pytest.mark.parametrize(
    ("repeats", "is_deterministic", "told"),
    [
        (dict.fromkeys(DIFFERING, True), True, "yes"),
        (DIFFERING, False, "not dq, dv"),
        (None, None, "–"),
    ],
)
def test_what_repeats_stands_in_the_table_and_beside_the_points(
    run_directory, repeats, is_deterministic, told
):
    back = {"pass": "backward", "suite": "backward"}
    square = Problem.parse("T=512,H=8,d_h=64")
    same = cell("a", square, 0.1, repeats=dict.fromkeys(DIFFERING, True), **back)
    record = cell("b", square, 0.2, repeats=repeats, **back)
    assert read_cell(record, Place("x")).is_deterministic is is_deterministic
    run = load_run(run_directory(records=[same, record]))
    assert [columns(run)["repeats"].show(c) for c in run.cells] == ["yes", told]
    assert "repeats" in terminal(run) and (told == "–" or told in terminal(run))
    line = points_csv(run).splitlines()[2]
    assert (f',"{told}",' if "," in told else f",{told.strip('–')},") in line


def test_a_table_of_forwards_alone_has_no_column_of_dashes(run_directory):
    run = load_run(run_directory(records=[cell("a", PROBLEM, 0.1)]))
    assert "repeats" not in columns(run) and "repeats" not in terminal(run)


def test_dropout_that_is_left_on_is_wrong():
    """Case D02, pytorch#124464: a function has no eval(), and SDPA drops whenever it is told to."""
    dropping = fake(
        lambda q, k, v, **a: torch.nn.functional.dropout(NAIVE.forward(q, k, v, **a), 0.1)
    )
    found = measure_cell(cell_of(dropping), CONDITIONS, SubjectMemory())
    assert found["status"] == "wrong" and found["reasons"][0].startswith("out: off by")

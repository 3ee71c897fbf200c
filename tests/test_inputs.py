import pytest
import torch

from impls.interface.inputs import TORCH_DTYPES, make_inputs
from impls.interface.problem import DTYPES, Problem

LAYOUTS = ("bhtd", "bthd", "packed")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_are_normal_and_nowhere_constant(dtype, layout):
    """Case T08, rocBLAS#1486: zeros draw less power, and run faster."""
    problem = Problem.parse(f"B=2,T=111,H=3,d_h=40,{dtype},{layout}")
    inputs = make_inputs(problem, "cpu")
    for tensor in (inputs.q, inputs.k, inputs.v, inputs.d_out):
        assert tensor.dtype == TORCH_DTYPES[dtype]
        assert 0.9 < float(tensor.double().std()) < 1.1
        assert abs(float(tensor.double().mean())) < 0.05
        assert float(tensor.double().std(-1).min()) > 0.3, "a constant row"


def test_inputs_have_the_shapes_of_the_problem():
    problem = Problem.parse("B=2,T_q=5,T_kv=7,H=6,H_kv=3,d_h=8,d_v=4")
    inputs = make_inputs(problem, "cpu")
    assert inputs.q.shape == (2, 6, 5, 8)
    assert inputs.k.shape == (2, 3, 7, 8)
    assert inputs.v.shape == (2, 3, 7, 4)
    assert inputs.d_out.shape == (2, 6, 5, 4)


def test_inputs_are_the_same_values_in_every_layout():
    made = [make_inputs(Problem.parse(f"B=2,T=17,H=3,d_h=8,{layout}"), "cpu") for layout in LAYOUTS]
    for other in made[1:]:
        for name in ("q", "k", "v", "d_out"):
            assert torch.equal(getattr(made[0], name), getattr(other, name))


def test_inputs_depend_on_the_seed_and_differ_from_one_another():
    problem = Problem.parse("T=17,H=2,d_h=8")
    a, again, b = (make_inputs(problem, "cpu", seed) for seed in (0, 0, 1))
    assert torch.equal(a.q, again.q)
    seen = [a.q, a.k, a.v, a.d_out, b.q, b.k, b.v, b.d_out]
    for i, one in enumerate(seen):
        assert not any(torch.equal(one, other) for other in seen[i + 1 :])


def test_inputs_share_storage_only_when_packed():
    for layout in LAYOUTS:
        inputs = make_inputs(Problem.parse(f"B=2,T=17,H=3,d_h=8,{layout}"), "cpu")
        qkv = {t.untyped_storage().data_ptr() for t in (inputs.q, inputs.k, inputs.v)}
        assert len(qkv) == (1 if layout == "packed" else 3)
        assert inputs.d_out.untyped_storage().data_ptr() not in qkv


def test_inputs_lie_in_memory_as_the_layout_says():
    # B=2, T=17, H=3, d_h=8: strides in elements of (B, H, T, d).
    strides = {
        "bhtd": (3 * 17 * 8, 17 * 8, 8, 1),
        "bthd": (17 * 3 * 8, 8, 3 * 8, 1),
        "packed": (17 * 3 * 3 * 8, 8, 3 * 3 * 8, 1),
    }
    for layout, expected in strides.items():
        inputs = make_inputs(Problem.parse(f"B=2,T=17,H=3,d_h=8,{layout}"), "cpu")
        for tensor in (inputs.q, inputs.k, inputs.v):
            assert tensor.stride() == expected


def test_inputs_of_an_empty_problem_are_empty():
    inputs = make_inputs(Problem(B=1, T_q=0, T_kv=4, H=2, d_h=8), "cpu")
    assert inputs.q.shape == (1, 2, 0, 8)
    assert inputs.k.shape == (1, 2, 4, 8)

"""The tolerance does not depend on what torch was told about its products."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference

PROBLEM = Problem.parse("T=33,H=2,d_h=40,causal")


class Products(TorchDispatchMode):
    """Collects the precision under which each product of matrices runs."""

    def __init__(self):
        super().__init__()
        self.precisions = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "mm" in func.__name__:
            self.precisions.append(torch.get_float32_matmul_precision())
        return func(*args, **(kwargs or {}))


@pytest.fixture
def medium():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


def test_the_plain_error_is_that_of_whole_float32_products(medium):
    """Case V03, triton#1671: a reference in TF32 agrees for the wrong reason.

    A processor without short products computes the same in every setting: look at that too.
    """
    inputs = make_inputs(PROBLEM, "cpu")
    with Products() as products:
        found = reference(inputs, PROBLEM)
    assert set(products.precisions) == {"highest"}
    assert torch.get_float32_matmul_precision() == "medium"
    torch.set_float32_matmul_precision("highest")
    expected = reference(inputs, PROBLEM)
    for name, output in expected.outputs.items():
        assert torch.equal(found.outputs[name].naive, output.naive), name


def test_the_setting_is_put_back_when_the_reference_fails(medium):
    inputs = make_inputs(PROBLEM, "cpu")
    with pytest.raises(IndexError):
        reference(inputs, PROBLEM.with_(T_q=35, T_kv=35))
    assert torch.get_float32_matmul_precision() == "medium"

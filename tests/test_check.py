import math

import pytest
import torch

from impls.interface.check import check_output, compare, poisoned_empty
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference

NAN, INF = math.nan, math.inf


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([0.0], [NAN]),
        ([NAN], [NAN]),
        ([NAN], [0.0]),
        ([INF], [-INF]),
        ([INF], [1.0]),
        ([1.0], [INF]),
    ],
)
def test_nan_and_wrong_infinities_never_agree_whatever_is_allowed(actual, expected):
    """Case V01, cubecl PR#1070: beside a reference of NaN everything passed."""
    assert not compare(tensor(*actual), tensor(*expected), INF, INF).ok


def test_infinities_agree_with_their_own_sign():
    found = compare(tensor(INF, -INF, 1.0), tensor(INF, -INF, 1.0), 0.0, 0.0)
    assert found.ok
    assert found.max_error == 0.0


def test_nothing_compared_is_a_failure():
    found = compare(tensor(), tensor(), INF, INF)
    assert not found.ok
    assert found.reasons == ("nothing compared",)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_zeros_are_wrong_however_small_the_right_output_is(dtype):
    """KernelBench#165: below a fixed tolerance a kernel that does nothing is right."""
    problem = Problem.parse(f"T_q=2,T_kv=65536,H=1,d_h=4,{dtype}")
    inputs = make_inputs(problem, "cpu")
    inputs.q.mul_(1e-3)
    found = check_output(
        torch.zeros_like(inputs.q), None, None, reference(inputs, problem, gradients=False)
    )
    assert not found.ok and "off by" in found.reasons[0]
    value = found.outputs["out"]
    assert value.max_error is not None and value.max_error < 0.02, "it is that small"


def test_shapes_must_be_the_same():
    assert not compare(torch.zeros(2, 3), torch.zeros(3, 2), INF).ok


def test_errors_are_the_largest_and_the_frobenius_distance():
    found = compare(tensor(3.0, 4.1), tensor(3.0, 4.0), 0.2, 0.03)
    assert found.ok
    assert found.max_error == pytest.approx(0.1)
    assert found.relative_error == pytest.approx(0.1 / 5.0)
    assert not compare(tensor(3.0, 4.1), tensor(3.0, 4.0), 0.05, 0.03).ok
    assert not compare(tensor(3.0, 4.1), tensor(3.0, 4.0), 0.2, 0.01).ok


def test_a_difference_from_nothing_is_infinitely_large():
    assert not compare(tensor(1e-9), tensor(0.0), 1.0, 1.0).ok
    assert compare(tensor(0.0), tensor(0.0), 0.0, 0.0).ok


def attention(q, k, v, causal=False):
    """Attention in the inputs' dtype with float32 scores, T_q ≤ T_kv."""
    scores = q.float() @ k.float().mT / q.shape[-1] ** 0.5
    if causal:
        T_q, T_kv = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(T_q, T_kv, dtype=torch.bool).tril(T_kv - T_q), -INF)
    return scores.softmax(-1).to(v.dtype) @ v, scores.logsumexp(-1)


def called(problem, seed=0):
    inputs = make_inputs(problem, "cpu", seed)
    q, k, v = (t.requires_grad_() for t in (inputs.q, inputs.k, inputs.v))
    out, lse = attention(q, k, v, problem.causal)
    grads = torch.autograd.grad(out, (q, k, v), inputs.d_out)
    with torch.no_grad():
        return out.detach(), lse.detach(), list(grads), reference(inputs, problem)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("text", ["T=1,H=2,d_h=64", "T=65,H=2,d_h=40,causal", "T=257,H=2,d_h=128"])
def test_a_plain_implementation_is_right(text, dtype):
    out, lse, grads, expected = called(Problem.parse(f"{text},{dtype}"))
    check = check_output(out, lse, grads, expected)
    assert check.ok, check.reasons
    assert set(check.outputs) == {"out", "lse", "dq", "dk", "dv"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_error_of_five_roundings_is_wrong(dtype):
    out, _, _, expected = called(Problem.parse(f"T=65,H=2,d_h=64,{dtype}"))
    eps = {"float32": 2.0**-23, "bfloat16": 2.0**-7}[dtype]
    factor = {"float32": 50, "bfloat16": 5}[dtype]
    noise = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    assert not check_output(
        (out + out * noise * factor * eps).to(out.dtype), None, None, expected
    ).ok


def test_nan_gradients_behind_a_finite_output_are_wrong():
    out, lse, grads, expected = called(Problem.parse("T=17,H=2,d_h=8"))
    grads[2] = grads[2].clone()
    grads[2][0, 1, 3, 4] = NAN
    check = check_output(out, lse, grads, expected)
    assert not check.ok
    assert check.reasons[0].startswith("dv: 1 of")
    assert check.outputs["out"].ok


def test_a_gradient_that_did_not_arrive_is_wrong():
    out, lse, grads, expected = called(Problem.parse("T=17,H=2,d_h=8"))
    check = check_output(out, lse, [grads[0], None, grads[2]], expected)
    assert check.reasons == ("dk: no gradient arrived",)


def test_an_lse_in_base_2_is_wrong():
    out, lse, _, expected = called(Problem.parse("T=17,H=2,d_h=8"))
    assert check_output(out, lse, None, expected).ok
    assert not check_output(out, lse / math.log(2), None, expected).ok


def test_shape_and_dtype_of_outputs_are_the_interfaces():
    out, lse, _, expected = called(Problem.parse("B=2,T=5,H=3,d_h=8,bfloat16"))
    assert not check_output(out.float(), None, None, expected).ok
    assert not check_output(out.transpose(1, 2), None, None, expected).ok
    padded = torch.cat([lse, lse[..., :3]], -1)
    assert not check_output(out, padded, None, expected).ok
    assert not check_output(out, lse.bfloat16(), None, expected).ok


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (lambda out: (out, None), "a tuple where a tensor is due"),
        (lambda out: out.numpy(), "a ndarray where a tensor is due"),
        (lambda out: out.to("meta"), "device meta where cpu is due"),
        (lambda out: out.to_sparse(), "layout torch.sparse_coo where torch.strided is due"),
    ],
)
def test_what_is_no_dense_tensor_of_the_device_is_wrong(turn, told):
    out, _, _, expected = called(Problem.parse("T=5,H=2,d_h=8"))
    assert check_output(turn(out), None, None, expected).reasons == (f"out: {told}",)


def test_nothing_given_is_a_failure():
    expected = called(Problem.parse("T=5,H=1,d_h=8"))[3]
    found = check_output(None, None, None, expected)
    assert found.reasons == ("no tensor was returned: nothing compared",)


def test_every_element_must_be_finite_also_outside_the_sample():
    out, lse, _, expected = called(Problem.parse("T=3000,H=1,d_h=8"))
    assert not expected.sample.is_all
    row = next(i for i in range(3000) if i not in set(expected.sample.rows.tolist()))
    assert check_output(out, lse, None, expected).ok
    out[0, 0, row, 2] = NAN
    check = check_output(out, None, None, expected)
    assert check.reasons == ("out: 1 of 24000 values are not finite",)
    assert check.rows == "sampled 256 of 3000"


def test_a_check_is_strict_json_of_the_cell_record():
    out, lse, grads, expected = called(Problem.parse("T=1,H=1,d_h=8"))
    out[0, 0, 0, 0] = NAN
    record = check_output(out, lse, grads, expected, after_timing=True).to_json()
    assert set(record) == {"ok", "against", "rows", "outputs", "after_timing", "where"}
    assert record["against"] == "float64"
    assert record["after_timing"] is True
    fields = {"max_error", "relative_error", "allowed_max", "allowed_relative", "naive_max_error"}
    for numbers in record["outputs"].values():
        assert set(numbers) == fields
        assert all(x is None or math.isfinite(x) for x in numbers.values())
    assert record["outputs"]["out"]["max_error"] is None


def test_poisoned_memory_is_nan_and_the_setting_is_restored():
    assert not torch.are_deterministic_algorithms_enabled()
    with poisoned_empty():
        for made in (
            torch.empty(7),
            torch.empty(7, dtype=torch.bfloat16),
            torch.empty_like(torch.zeros(7)),
            torch.zeros(2).new_empty(7),
            torch.empty_strided((7,), (2,)),
        ):
            assert bool(made.isnan().all())
        # What a C++ operator allocates and writes is written.
        assert bool((torch.ones(3, 4) @ torch.ones(4, 5)).isfinite().all())
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_what_was_asked_of_deterministic_algorithms_before_is_asked_again_after(mode):
    try:
        torch.set_deterministic_debug_mode(mode)
        with poisoned_empty():
            assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.get_deterministic_debug_mode() == mode
    finally:
        torch.set_deterministic_debug_mode("default")


def test_poison_is_taken_away_when_the_call_fails():
    with pytest.raises(RuntimeError), poisoned_empty():
        raise RuntimeError
    assert not torch.are_deterministic_algorithms_enabled()


def test_an_error_everywhere_is_wrong_though_it_is_nowhere_large():
    """Early causal rows have large values, whose rounding sets the largest error allowed."""
    out, _, _, expected = called(Problem.parse("T=257,H=2,d_h=64,causal,bfloat16"))
    allowed = check_output(out, None, None, expected).outputs["out"].allowed_max
    assert allowed is not None
    check = check_output((out.double() + 0.8 * allowed).bfloat16(), None, None, expected)
    found = check.outputs["out"]
    assert found.max_error is not None and found.max_error <= allowed
    assert len(check.reasons) == 1 and "of its size" in check.reasons[0]


def test_where_bfloat16_is_exact_one_rounding_of_the_largest_value_is_too_much():
    """A single key: out is v, and a floor eps/4 of the largest value is all that is allowed.

    The step of bfloat16 at x is between eps·x/2 and eps·x: 2 to 4 floors at the largest value, and
    less than one at a fifth of it.
    """
    out, _, _, expected = called(Problem.parse("T=1,H=2,d_h=64,bfloat16"))
    assert check_output(out, None, None, expected).ok
    largest = float(out.abs().max())
    for wanted, is_right in ((largest, False), (largest / 5, True)):
        at = (out.abs() - wanted).abs().flatten().argmin()
        off = out.clone()
        off.view(torch.int16).view(-1)[at] += 1
        assert check_output(off, None, None, expected).ok == is_right

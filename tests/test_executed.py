"""What a profile says ran: the operator that did the work, not its wrappers."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from suites.measure import executed as executed_module
from suites.measure.executed import _Event, _least, _telling, executed
from suites.measure.memory import UNKNOWN


@pytest.fixture
def q():
    return torch.randn(1, 2, 63, 40)


def test_the_formula_shows_its_products_and_softmax(q):
    ran = executed(lambda: (q @ q.transpose(-1, -2)).softmax(-1) @ q).ran
    assert "aten::bmm" in ran
    assert "aten::_softmax" in ran
    assert not {"aten::transpose", "aten::expand", "aten::view", "[memory]"} & set(ran)


def test_the_sdpa_backend_that_ran_is_named(q):
    """tritonbench#41: which backend really ran?"""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        flash = executed(lambda: scaled_dot_product_attention(q, q, q))
    with sdpa_kernel(SDPBackend.MATH):
        math = executed(lambda: scaled_dot_product_attention(q, q, q))
    assert flash.ran[0] == "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert flash.contains(["_scaled_dot_product_flash_attention"])
    assert not math.contains(["_scaled_dot_product_flash_attention"])
    assert math.contains(["nothing", "_scaled_dot_product_attention_math"])


def _triggers() -> dict[str, Callable[[], torch.Tensor]]:
    """Calls for which torch leaves its fused kernel without a word."""
    sdpa = scaled_dot_product_attention
    q, turned = torch.randn(1, 2, 32, 16), torch.randn(1, 2, 16, 32).mT
    bias = torch.zeros(32, 32, requires_grad=True)
    return {
        "three dimensions": lambda: sdpa(q[0], q[0], q[0]),
        "five dimensions": lambda: sdpa(q[None], q[None], q[None]),
        "last stride not 1": lambda: sdpa(turned, turned, turned),
        "d_v differs": lambda: sdpa(q, q, q[..., :8]),
        "dropout": lambda: sdpa(q, q, q, dropout_p=0.1),
        "mask with gradient": lambda: sdpa(q, q, q, attn_mask=bias),
        "mask of three dimensions": lambda: sdpa(q, q, q, attn_mask=torch.zeros(2, 32, 32)),
        "one kv head without the flag": lambda: sdpa(q, q[:, :1], q[:, :1]),
        "one batch of keys for two": lambda: sdpa(q.expand(2, -1, -1, -1), q, q),
    }


@pytest.mark.parametrize("trigger", _triggers())
def test_a_call_that_leaves_the_fused_kernel_is_recorded_as_math(trigger):
    """Case F01, unsloth#8225: such rows were published as "flash"."""
    found = executed(_triggers()[trigger])
    assert "aten::_scaled_dot_product_attention_math" in found.ran
    assert not found.contains(["_scaled_dot_product_flash_attention"])


def test_one_kv_head_with_the_flag_stays_fused(q):
    """Case G04, pytorch PR#191085: the same values, by another kernel."""
    with_flag = scaled_dot_product_attention(q, q[:, :1], q[:, :1], enable_gqa=True)
    without = scaled_dot_product_attention(q.double(), q[:, :1].double(), q[:, :1].double())
    torch.testing.assert_close(with_flag.double(), without, atol=1e-6, rtol=1e-5)
    found = executed(lambda: scaled_dot_product_attention(q, q[:, :1], q[:, :1], enable_gqa=True))
    assert found.ran[0] == "aten::_scaled_dot_product_flash_attention_for_cpu"


def test_what_compiled_code_ran_is_read_and_not_predicted(q):
    """Case F06, pytorch#113524: torch's own prediction was another kernel than the one that ran."""
    compiled = torch.compile(
        lambda q: scaled_dot_product_attention(q, q, q, dropout_p=0.1), backend="eager"
    )
    found = executed(lambda: compiled(q))
    assert "aten::_scaled_dot_product_attention_math" in found.ran
    assert not found.contains(["_scaled_dot_product_flash_attention"])


def test_the_backward_operator_is_named(q):
    q.requires_grad_()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = scaled_dot_product_attention(q, q, q)
    ran = executed(lambda: torch.autograd.grad(out.sum(), q, retain_graph=True)).ran
    assert any("flash_attention_for_cpu_backward" in name for name in ran)


def test_what_leaves_no_trace_is_unknown(q):
    array = q.numpy()
    found = executed(lambda: array @ array.swapaxes(-1, -2))
    assert found.ran == ("unknown",)
    assert found.memory.peak_bytes is None


def test_at_most_eight_names_the_longest_first():
    events = [_Event(f"aten::op{i}", float(i), False) for i in range(1, 21)]
    assert _telling(events) == tuple(f"aten::op{i}" for i in range(20, 12, -1))


def test_the_chosen_operator_is_named_however_many_took_longer():
    events = [_Event(f"aten::op{i}", float(i), False) for i in range(1, 21)]
    chosen = _Event("aten::_scaled_dot_product_attention_math", 0.5, False)
    longest = tuple(f"aten::op{i}" for i in range(20, 13, -1))
    assert _telling([*events, chosen]) == (*longest, chosen.name)


def test_beside_kernels_only_kernels_and_the_chosen_operator_are_telling():
    events = [
        _Event("aten::_scaled_dot_product_cudnn_attention", 50.0, False),
        _Event("aten::add", 900.0, False),
        _Event("cudaLaunchKernel", 800.0, False),
        _Event("cudnn_generated_fort_native_sdpa_sm90", 100.0, True),
        _Event("elementwise_kernel", 0.1, True),
    ]
    assert _telling(events) == (
        "cudnn_generated_fort_native_sdpa_sm90",
        "aten::_scaled_dot_product_cudnn_attention",
    )


def test_names_that_change_with_every_build_are_shortened():
    events = [
        _Event("## Call CompiledFxGraph fbhywykkn5uvsizfny ##", 5.0, False),
        _Event("k" * 300, 9.0, True),
    ]
    assert _telling(events) == ("k" * 119 + "…", "CompiledFxGraph")


def test_asynchronous_work_is_waited_for_inside_the_profile():
    order = []
    executed(lambda: order.append("call"), synchronize=lambda: order.append("wait"))
    assert order == ["call", "wait"] * 3


def test_an_interruption_during_one_profile_tells_nothing():
    """On a busy machine a wrapper stood first, and the work was below a hundredth of its time."""
    work, wrapper = "aten::bmm", "aten::matmul"
    calm = [_Event(work, 20.0, False), _Event(wrapper, 1.0, False), _Event(work, 30.0, False)]
    interrupted = [_Event(work, 51.0, False), _Event(wrapper, 9000.0, False)]
    assert _telling(interrupted) == (wrapper,)
    assert _least([interrupted, calm]) == [_Event(work, 50.0, False), _Event(wrapper, 1.0, False)]
    assert _telling(_least([interrupted, calm])) == (work, wrapper)


@pytest.mark.parametrize(("seconds", "calls"), [(0.0099, 3), (0.0101, 1)])
def test_a_call_is_made_thrice_when_it_is_short(fake_time, seconds, calls):
    made = []
    executed(lambda: made.append(fake_time.compute(seconds)))
    assert len(made) == calls


def test_what_the_call_raises_comes_out_and_the_profiler_is_left_usable(q):
    def fail():
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        executed(fail)
    assert executed(lambda: q + q).ran == ("aten::add",)


def test_on_a_gpu_launches_and_the_time_in_kernels_are_told_beside_the_clock(monkeypatch):
    """Kernels of 12.5 and 3 µs and a copy of 1 µs; what the host did between them is not theirs."""

    on_a_cpu = executed(lambda: torch.ones(2) + 1)
    assert (on_a_cpu.kernels, on_a_cpu.kernels_s) == (None, None)

    def event(name, kind, us):
        lasting = SimpleNamespace(elapsed_us=lambda: us)
        kinds = {"name": name, "device_type": SimpleNamespace(name=kind)}
        return SimpleNamespace(**kinds, time_range=lasting, self_cpu_time_total=us)

    class Profile(nullcontext):
        function_events = (
            event("attention_kernel", "CUDA", 12.5),
            event("reduce_kernel", "CUDA", 3.0),
            event("Memcpy DtoD", "CUDA", 1.0),
            event("cudaLaunchKernel", "CPU", 40.0),
        )

    monkeypatch.setattr(executed_module, "profile", lambda **_: Profile())
    monkeypatch.setattr(executed_module, "cuda_peak", lambda work: work() or UNKNOWN)
    found = executed(lambda: None, "cuda")
    assert (found.kernels, found.kernels_s) == (2, pytest.approx(16.5e-6))

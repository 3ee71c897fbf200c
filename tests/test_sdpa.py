"""The SDPA kernels are what their names say, or an error: no fallback, the mask aligned right."""

from __future__ import annotations

import pytest
import torch

from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.problem import Problem
from impls.sdpa import _Pinned, sdpa_cudnn, sdpa_efficient, sdpa_flash, sdpa_math

ON_CPU = [sdpa_math, sdpa_flash]
OTHER = {"sdpa_math": "flash_attention", "sdpa_flash": "attention_math"}


def tensors(*, B=2, H=4, T=6, d_h=16, H_kv=None, d_v=None):
    generator = torch.Generator().manual_seed(5)
    shapes = ((B, H, T, d_h), (B, H_kv or H, T, d_h), (B, H_kv or H, T, d_v or d_h))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def operators(call) -> list[str]:
    with torch.profiler.profile(acc_events=True) as profile:
        call()
    return [event.key for event in profile.key_averages()]


@pytest.mark.parametrize("implementation", ON_CPU, ids=lambda i: i.name)
@pytest.mark.parametrize(
    "text",
    [
        "B=2,T=6,H=4,d_h=16",
        "B=2,T=6,H=4,H_kv=1,d_h=16,causal",
        "B=2,T_q=1,T_kv=9,H=4,H_kv=2,d_h=16,causal",
        "B=2,T_q=5,T_kv=9,H=4,d_h=16,causal",
        "B=2,T_q=9,T_kv=5,H=4,d_h=16,causal",
    ],
)
def test_the_pinned_kernel_is_the_one_that_ran(implementation, text):
    p = Problem.parse(text)
    q = torch.randn(p.B, p.H, p.T_q, p.d_h)
    k = torch.randn(p.B, p.H_kv, p.T_kv, p.d_h)
    forward = implementation.prepare(p, "cpu")
    ran = operators(lambda: forward(q, k, k))
    assert any(name in key for key in ran for name in implementation.runs)
    assert not any(OTHER[implementation.name] in key for key in ran)
    direct, _ = attend(implementation, q, k, k, causal=p.causal)
    assert torch.equal(forward(q, k, k), direct)


def test_switches_are_as_before_after_a_call_and_after_an_error():
    enabled = torch.backends.cuda.math_sdp_enabled
    assert enabled()
    attend(sdpa_flash, *tensors())
    assert enabled()
    with pytest.raises(KeyError), _Pinned("flash"):
        assert not enabled()
        raise KeyError
    assert enabled()


@pytest.mark.parametrize("implementation", [sdpa_efficient, sdpa_cudnn], ids=lambda i: i.name)
def test_kernel_without_a_cpu_version_is_unsupported(implementation):
    """Case F03, TabPFN PR#947: math was appended to the list, and hid it."""
    with pytest.raises(Unsupported, match="No viable backend"):
        attend(implementation, *tensors())
    assert reasons_against(implementation, Problem.parse("B=1,T=4,H=1,d_h=8"), "cpu") == [
        "does not run on cpu (only cuda)"
    ]


def test_flash_refuses_a_last_dimension_that_is_not_contiguous():
    """Case L04, pytorch#127523: by default torch goes to its math path here without a word."""
    transposed = torch.randn(1, 2, 32, 16).transpose(-1, -2)
    stepped = torch.randn(1, 2, 16, 64)[..., ::2]
    for tensor in (transposed, stepped):
        with pytest.raises(Unsupported, match="last-dim stride"):
            attend(sdpa_flash, tensor, tensor, tensor)
        out, _ = attend(sdpa_math, tensor, tensor, tensor)
        expected, _ = attend(sdpa_math, *(tensor.double() for _ in range(3)))
        torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


def test_flash_refuses_what_sends_torch_to_its_math_path():
    q, k, v = tensors(d_v=8)
    with pytest.raises(Unsupported, match="d_v=8 differs from d_h=16"):
        attend(sdpa_flash, q, k, v)
    q, k, v = tensors()
    with pytest.raises(Unsupported, match="a mask that requires grad"):
        attend(sdpa_flash, q, k, v, mask=torch.zeros(6, 6, requires_grad=True))
    for wrong in (q[0], q[None]):
        with pytest.raises(ValueError, match="dimensions"):
            attend(sdpa_flash, wrong, wrong, wrong)
    with pytest.raises(ValueError, match="B differs"):
        attend(sdpa_flash, q, k[:1], v[:1])


def test_flash_takes_grouped_heads_and_masks_of_three_dimensions_by_itself():
    """Torch alone goes to math for both: without its GQA flag, and for a mask (H, T, T)."""
    q, k, v = tensors(H_kv=1)
    mask = torch.rand(4, 6, 6) > 0.3
    ran = operators(lambda: attend(sdpa_flash, q, k, v, mask=mask))
    assert any("_scaled_dot_product_flash_attention_for_cpu" in key for key in ran)


def test_windows_and_softcaps_are_refused_not_made_into_masks():
    q, k, v = tensors()
    with pytest.raises(Unsupported, match=r"window.*; softcap"):
        attend(sdpa_math, q, k, v, causal=True, window=2, softcap=1.0)
    window = Problem.parse("B=1,T=8,H=1,d_h=8,causal,window=3")
    assert reasons_against(sdpa_flash, window, "cpu", ["softcap"]) == [
        "a sliding window is not supported",
        "softcap is not supported",
    ]


def test_lse_comes_from_the_same_kernel():
    q, k, v = tensors()
    ran = operators(lambda: attend(sdpa_flash, q, k, v, causal=True, with_lse=True))
    assert any("_scaled_dot_product_flash_attention_for_cpu" in key for key in ran)
    with pytest.raises(Unsupported, match="lse is not supported"):
        attend(sdpa_math, q, k, v, with_lse=True)


def test_all_of_what_torch_says_is_collected(monkeypatch):
    """Torch tells why it has no kernel in warnings only; the error itself says nothing."""
    q, k, v = tensors(d_v=8)
    monkeypatch.setattr("impls.sdpa._refuse", lambda *_, **__: None)
    with pytest.raises(Unsupported, match=r"No available kernel.*same last dimension"):
        attend(sdpa_flash, q, k, v)


def test_cuda_rules_name_every_limit(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def reasons(implementation, text, *needs):
        return reasons_against(implementation, Problem.parse(text), "cuda", needs)

    assert reasons(sdpa_flash, "B=1,T=8,H=2,d_h=300,float32", "mask") == [
        "dtype float32 is not supported on cuda (only bfloat16, float16)",
        "d_h=300 is above 256 on cuda",
        "mask is not supported on cuda",
    ]
    assert reasons(sdpa_flash, "B=1,T=8,H=4,H_kv=1,d_h=40,bfloat16,causal", "lse") == []
    assert reasons(sdpa_efficient, "B=1,T=8,H=4,H_kv=2,d_h=20,d_v=12,float16") == [
        "H_kv=2 differs from H=4: grouped heads are not supported",
        "d_h=20 is not a multiple of 8",
        "d_v=12 is not a multiple of 8",
    ]
    assert reasons(sdpa_efficient, "B=1,T=8,H=4,d_h=20,float32") == []
    assert reasons(sdpa_cudnn, "B=1,T=8,H=4,d_h=320,float16") == ["d_h=320 is above 128"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert reasons(sdpa_cudnn, "B=1,T=8,H=4,d_h=192,float16") == []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert reasons(sdpa_flash, "B=1,T=8,H=4,d_h=64,float16") == [
        "needs compute capability 8.0, this device has 7.5"
    ]

"""Implementations made by torch.compile: compiled for the problem, or an error, never eager."""

from __future__ import annotations

import math

import pytest
import torch

from impls.compiled_naive import _OPTIONS, compiled_naive
from impls.flex import _block_mask, flex
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.compiling import Compiled, compile_afresh, compiled_graphs, compiler_missing
from impls.interface.problem import Problem

COMPILED = [flex, compiled_naive]


def problem_qkv(problem: Problem) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    p = problem
    shapes = ((p.B, p.H, p.T_q, p.d_h), (p.B, p.H_kv, p.T_kv, p.d_h), (p.B, p.H_kv, p.T_kv, p.d_v))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def reference(q, k, v, *, causal=False, window=None, mask=None, softcap=None):
    """The formula in float64 with its heads expanded by hand, dead rows 0."""
    T_q, T_kv = q.shape[2], k.shape[2]
    of_head = [h // (q.shape[1] // k.shape[1]) for h in range(q.shape[1])]
    k, v = k.double()[:, of_head], v.double()[:, of_head]
    s = torch.einsum("bhid,bhjd->bhij", q.double(), k) / math.sqrt(q.shape[3])
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    for i in range(T_q):
        for j in range(T_kv):
            last = i + T_kv - T_q
            if causal and (j > last or (window and j <= last - window)):
                s[:, :, i, j] = -math.inf
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    return torch.softmax(s, -1).nan_to_num(0.0) @ v


def agree(out: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


def keys_of_a_profile(call) -> list[str]:
    with torch.profiler.profile(acc_events=True) as profile:
        call()
    return [event.key for event in profile.key_averages()]


@pytest.mark.parametrize("implementation", COMPILED, ids=lambda i: i.name)
def test_prepared_forward_is_compiled_and_ran_what_it_declares(implementation):
    problem = Problem.parse("B=1,T_q=5,T_kv=131,H=4,H_kv=2,d_h=9,causal")
    q, k, v = problem_qkv(problem)
    before = compiled_graphs()
    with torch.no_grad():
        forward = implementation.prepare(problem, "cpu")
        out = forward(q, k, v)
        keys = keys_of_a_profile(lambda: forward(q, k, v))
    assert compiled_graphs() == before + 1
    agree(out, reference(q, k, v, causal=True))
    assert any(name in key for name in implementation.runs for key in keys)
    assert not any("scaled_dot_product" in key for key in keys)


@pytest.mark.slow
def test_flex_masks_caps_and_zeroes_a_dead_row():
    q, k, v = problem_qkv(Problem.parse("B=2,T_q=6,T_kv=11,H=2,d_h=8,d_v=5"))
    mask = torch.rand(2, 1, 6, 11, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[0, 0, 2] = False
    out, _ = attend(flex, q, k, v, mask=mask, softcap=1.5)
    agree(out, reference(q, k, v, mask=mask, softcap=1.5))
    assert (out[0, :, 2] == 0).all()


@pytest.mark.slow
def test_compiled_naive_differentiates_a_causal_problem_with_dead_rows():
    q, k, v = (t.requires_grad_() for t in problem_qkv(Problem.parse("T_q=7,T_kv=4,H=2,d_h=5,B=1")))
    expected = reference(q, k, v, causal=True)
    out, lse = attend(compiled_naive, q, k, v, causal=True, with_lse=True)
    agree(out, expected)
    assert lse is not None
    assert lse[0, :, :3].eq(-math.inf).all() and lse[0, :, 3:].isfinite().all()
    dout = torch.sin(torch.arange(out.numel(), dtype=torch.float32)).reshape(out.shape)
    s = torch.einsum("bhid,bhjd->bhij", q.double(), k.double())[:, :, 3:] / math.sqrt(5)
    s = s + torch.full((4, 4), -math.inf, dtype=torch.float64).triu(1)
    lived = (torch.softmax(s, -1) @ v.double() * dout[:, :, 3:]).sum()
    for gradient, wanted in zip(
        torch.autograd.grad((out * dout).sum(), (q, k, v)),
        torch.autograd.grad(lived, (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(gradient, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_options_keep_inductor_from_recognising_attention():
    """Left alone, Inductor replaces the textbook formula by scaled_dot_product_attention."""
    from torch._dynamo.utils import counters
    from torch._functorch import config as autograd
    from torch._inductor import config as inductor

    def textbook(q, k, v):
        return torch.softmax(q @ k.mT / 4.0, -1) @ v

    rewrites = {}
    q = torch.randn(1, 2, 64, 16)
    for name, options in (("default", None), ("ours", _OPTIONS)):
        counters["inductor"].clear()
        # From the caches on disk the graph comes as it was rewritten, and nothing is counted.
        uncached = inductor.patch(fx_graph_cache=False), autograd.patch(enable_autograd_cache=False)
        with torch.no_grad(), uncached[0], uncached[1]:
            compile_afresh(textbook, options)(q, q, q)
        rewrites[name] = counters["inductor"]["fuse_attention"]
    assert rewrites == {"default": 1, "ours": 0}


@pytest.mark.slow
@pytest.mark.parametrize("implementation", COMPILED, ids=lambda i: i.name)
@pytest.mark.parametrize(
    "text",
    [
        "B=1,T_q=13,T_kv=5,H=2,d_h=8,causal",
        "B=2,T=130,H=2,d_h=16,causal,window=20",
        "B=1,T_q=1,T_kv=33,H=8,H_kv=1,d_h=40,causal,window=9",
        "B=1,T_q=3,T_kv=17,H=2,d_h=1",
    ],
)
def test_compiled_agrees_with_the_formula(implementation, text):
    problem = Problem.parse(text)
    q, k, v = problem_qkv(problem)
    with torch.no_grad():
        out = implementation.prepare(problem, "cpu")(q, k, v)
    agree(out, reference(q, k, v, causal=problem.causal, window=problem.window))


@pytest.mark.parametrize(
    ("T_q", "T_kv"), [(1, 300), (300, 300), (130, 513), (400, 129), (256, 384)]
)
@pytest.mark.parametrize("window", [None, 1, 100, 129, 300])
def test_block_mask_equals_the_one_torch_evaluates(T_q, T_kv, window):
    from torch.nn.attention.flex_attention import create_block_mask

    def visible(b, h, i, j):
        last = i + T_kv - T_q
        return (j <= last) & (j > last - (window or 10**6))

    ours = _block_mask(T_q, T_kv, window, "cpu")
    torchs = create_block_mask(visible, None, None, T_q, T_kv, device="cpu")
    assert torch.equal(ours.to_dense(), torchs.to_dense())
    assert torch.equal(ours.kv_num_blocks, torchs.kv_num_blocks)
    assert ours.full_kv_num_blocks is not None and torchs.full_kv_num_blocks is not None
    assert torch.equal(ours.full_kv_num_blocks, torchs.full_kv_num_blocks)
    assert ours.seq_lengths == torchs.seq_lengths == (T_q, T_kv)


@pytest.mark.parametrize("T", [128, 130, 512])
def test_a_block_mask_of_another_length_is_refused(T):
    """Case C05, pytorch PR#141625: it was silently taken for the length at hand."""
    long = Problem.parse("B=1,T=1024,H=1,d_h=16,causal")
    q, k, v = problem_qkv(long.with_(T_q=T, T_kv=T))
    with torch.no_grad(), pytest.raises(Exception, match=r"(?s)block_mask.*1024"):
        flex.prepare(long, "cpu")(q, k, v)  # type: ignore[misc]  # it has one


def test_flex_declares_what_it_lacks_on_cpu():
    """Case D06: told before, and not by a traceback of Inductor's."""
    problem = Problem.parse("B=1,T=8,H=1,d_h=16")
    assert reasons_against(flex, problem, "cpu", ["backward", "lse"]) == [
        "backward is not supported on cpu",
        "lse is not supported on cpu",
    ]
    assert reasons_against(flex, problem, "cpu") == []
    assert reasons_against(flex, problem, "cuda", ["backward", "lse"]) == []
    q, k, v = problem_qkv(problem)
    with pytest.raises(Unsupported, match=r"^lse is not supported on cpu$"):
        attend(flex, q, k, v, with_lse=True)
    with pytest.raises(Unsupported, match=r"^backward is not supported on cpu$"):
        attend(flex, q.requires_grad_(), k, v)


@pytest.mark.parametrize("implementation", COMPILED, ids=lambda i: i.name)
@pytest.mark.parametrize("shape", [(0, 4, 4), (1, 0, 4), (1, 4, 0), (1, 0, 0)])
def test_empty_tensors_compute_zeros_without_compiling(implementation, shape):
    B, T_q, T_kv = shape
    q, k = torch.ones(B, 2, T_q, 8), torch.ones(B, 2, T_kv, 8)
    before = compiled_graphs()
    out, _ = attend(implementation, q, k, k, causal=True)
    assert out.shape == q.shape and (out == 0).all()
    assert compiled_graphs() == before


def test_recompile_limit_is_an_error_and_not_an_eager_run():
    """Case K01, vllm#27178: after 8 sizes torch goes on eagerly, as another program."""
    compiled = Compiled(lambda x: x * 2 + 1)
    from torch._dynamo import config, reset
    from torch._dynamo.exc import FailOnRecompileLimitHit

    reset()
    with (
        config.patch(recompile_limit=1),
        pytest.raises(FailOnRecompileLimitHit),
    ):
        compiled(torch.zeros(2))
        compiled(torch.zeros(3))


def test_eager_run_under_a_disabled_compiler_is_an_error():
    compiled = Compiled(lambda x: x * 2 + 1)
    with (
        torch.compiler.set_stance("force_eager"),
        pytest.raises(RuntimeError, match="ran eagerly"),
    ):
        compiled(torch.zeros(2))


def test_missing_cpp_compiler_is_named_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert compiler_missing("cpu") == ["no C++ compiler found: apt install g++"]
    assert flex.unavailable is not None
    assert flex.unavailable("cpu") == compiler_missing("cpu")

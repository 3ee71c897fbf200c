"""How a backward launch of triton_flash is proven: guarded inputs and the interface's check."""

import math

import torch

from impls.interface.check import check_output
from impls.interface.inputs import Inputs
from impls.interface.reference import reference
from impls.triton_flash.interpreter import guarded, shuffled_grid
from impls.triton_flash.launch import attend
from impls.triton_flash.launch_backward import gradients
from tests.interpreted_proof import TORCH_DTYPES, drawn, visible


def drawn_d_out(problem, seed=1):
    """The gradient that arrives, laid out as the output of the layout, amid NaN where it may be."""
    generator = torch.Generator().manual_seed(seed)
    shape = (problem.B, problem.H, problem.T_q, problem.d_v)
    values = torch.randn(shape, generator=generator).to(TORCH_DTYPES[problem.dtype])
    if problem.layout == "bhtd":
        return guarded(values)
    return values.transpose(1, 2).contiguous().transpose(1, 2)


def assert_gradients_right(problem, tensors=None, *, d_out=None, scale=None, seeds=(), **launched):
    """One backward launch against float64, and the same bits in each seed's order → dq, dk, dv."""
    q, k, v = drawn(problem) if tensors is None else tensors
    d_out = drawn_d_out(problem) if d_out is None else d_out
    arguments = {"causal": problem.causal, "window": problem.window, "scale": scale}
    out, lse = attend(q, k, v, **arguments)
    arguments |= launched
    found = gradients(q, k, v, out, lse, d_out, **arguments)
    for seed in seeds:
        with shuffled_grid(seed):
            again = gradients(q, k, v, out, lse, d_out, **arguments)
        for name, first, second in zip(("dq", "dk", "dv"), found, again, strict=True):
            assert torch.equal(first, second), f"{name} differs with the order of programs"
    expected = reference(Inputs(q, k, v, d_out), problem, scale=scale)
    check = check_output(out, lse, found, expected, where="interpreter")
    assert check.ok, "; ".join(check.reasons)
    assert set(check.outputs) == {"out", "lse", "dq", "dk", "dv"}
    return found


def exact(tensors, problem):
    """Output and lse in float64 by the formula, for autograd to differentiate; lse 0 where −inf."""
    q, k, v = tensors
    seen = visible(problem)
    dead = ~seen.any(-1)
    heads = [h // (problem.H // problem.H_kv) for h in range(problem.H)]
    scores = q @ k[:, heads].mT * problem.scale
    scores = scores.masked_fill(~seen & ~dead[:, None], -math.inf)
    weights = torch.softmax(scores, -1).masked_fill(dead[:, None], 0.0)
    return weights @ v[:, heads], torch.logsumexp(scores, -1).masked_fill(dead, 0.0)


def leaves(*tensors, dtype=None):
    return [t.detach().to(dtype or t.dtype).requires_grad_() for t in tensors]

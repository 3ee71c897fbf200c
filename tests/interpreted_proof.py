"""How a launch of triton_flash is proven: drawn inputs, the formula in float64, a tolerance."""

import math

import torch

from impls.triton_flash.interpreter import guarded, shuffled_grid
from impls.triton_flash.launch import attend

TORCH_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


# Shapes and strides whose third row, head or batch begins at 2³¹ elements, where 32 bits wrap.
FAR_APART = {
    "rows": ((1, 1, 3, 64), (64, 64, 2**30, 1)),
    "heads": ((1, 3, 2, 64), (64, 2**30, 64, 1)),
    "batches": ((3, 1, 2, 64), (2**30, 64, 64, 1)),
}


def far_and_near(axis):
    """The same float16 values in 4 GiB of lazy pages, and side by side."""
    torch.use_deterministic_algorithms(False)  # it would fill, and so touch, every page
    shape, strides = FAR_APART[axis]
    far = torch.as_strided(torch.empty(2 * 2**30 + 128, dtype=torch.float16), shape, strides)
    near = torch.randn(shape, generator=torch.Generator().manual_seed(0)).half()
    return far.copy_(near), near


def drawn(problem, seed=0):
    """q, k and v of a problem in its layout, amid NaN where the layout leaves room for it."""
    generator = torch.Generator().manual_seed(seed)
    dtype = TORCH_DTYPES[problem.dtype]

    def normal(*shape):
        return torch.randn(shape, generator=generator).to(dtype)

    B, H, H_kv = problem.B, problem.H, problem.H_kv
    if problem.layout == "packed":
        return normal(B, problem.T_q, 3, H, problem.d_h).permute(2, 0, 3, 1, 4).unbind()
    shapes = (
        (B, H, problem.T_q, problem.d_h),
        (B, H_kv, problem.T_kv, problem.d_h),
        (B, H_kv, problem.T_kv, problem.d_v),
    )
    if problem.layout == "bthd":
        return [normal(b, t, h, d).transpose(1, 2) for b, h, t, d in shapes]
    return [guarded(normal(*shape)) for shape in shapes]


def visible(problem):
    """(T_q, T_kv), True where a query sees a key, written out pair by pair."""
    shift = problem.T_kv - problem.T_q
    seen = torch.ones(problem.T_q, problem.T_kv, dtype=torch.bool)
    for i in range(problem.T_q if problem.causal else 0):
        for j in range(problem.T_kv):
            is_recent = problem.window is None or j > i + shift - problem.window
            seen[i, j] = j <= i + shift and is_recent
    return seen


def formula(q, k, v, seen, scale, dtype):
    """Output and lse of softmax(q·kᵀ·scale)·v computed in `dtype`; p rounded as v is."""
    heads = [h // (q.shape[1] // k.shape[1]) for h in range(q.shape[1])]
    scores = q.to(dtype) @ k[:, heads].to(dtype).transpose(2, 3) * scale
    scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1) if scores.shape[-1] else scores.new_full(q.shape[:3], -math.inf)
    p = torch.exp(scores - scores.amax(-1, keepdim=True).clamp_min(torch.finfo(dtype).min))
    total = p.sum(-1, keepdim=True)
    p = p if dtype == torch.float64 else p.to(v.dtype).to(dtype)
    out = p @ v[:, heads].to(dtype) / total.masked_fill(total == 0, 1.0)
    return (out if dtype == torch.float64 else out.to(v.dtype)), lse


def assert_within(found, exact, formula_found, floor, what):
    """Max and relative Frobenius error: at most twice the formula's own in that dtype + floor."""
    assert found.shape == exact.shape, what
    assert torch.isfinite(found).all(), f"{what} is not finite"
    assert exact.numel(), f"no {what} to compare"

    def errors(x):
        difference = x.double() - exact
        return difference.abs().max().item(), difference.norm().item() / (exact.norm().item() or 1)

    largest = exact.abs().max().item() or 1.0
    for error, allowed, unit, kind in zip(
        errors(found), errors(formula_found), (largest, 1.0), ("max", "relative"), strict=True
    ):
        assert error <= 2 * allowed + floor * unit, (
            f"{kind} error of {what}: {error:.3g} > 2 · {allowed:.3g} + {floor * unit:.3g}"
        )


def assert_right(problem, tensors=None, *, launch=attend, scale=None, seeds=(), **launched):
    """One `launch` in order and one for each seed's order, against the formula in float64."""
    q, k, v = drawn(problem) if tensors is None else tensors
    factor = problem.d_h**-0.5 if scale is None else scale
    seen = visible(problem)
    exact, exact_lse = formula(q, k, v, seen, factor, torch.float64)
    near, near_lse = formula(q, k, v, seen, factor, torch.float32)
    dead = exact_lse.isneginf()
    arguments = {"causal": problem.causal, "window": problem.window, "scale": scale, **launched}
    results = [launch(q, k, v, **arguments)]
    for seed in seeds:
        with shuffled_grid(seed):
            results.append(launch(q, k, v, **arguments))
    # Where the formula is exact by luck (two keys): one rounding of a 16-bit result, or 16
    # roundings of a float32 accumulator.
    floor = torch.finfo(q.dtype).eps * (16 if q.dtype == torch.float32 else 0.5)
    for out, lse in results:
        assert lse.dtype == torch.float32
        assert out.dtype == q.dtype
        assert (out[dead] == 0).all(), "a row without keys is not 0"
        assert torch.equal(lse.isneginf(), dead), "lse is −inf for the wrong rows"
        if not dead.all():
            assert_within(out[~dead], exact[~dead], near[~dead], floor, "out")
            assert_within(lse[~dead], exact_lse[~dead], near_lse[~dead], 2e-6, "lse")
    return results[0]

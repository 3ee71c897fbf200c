"""The inputs of a problem: seeded normal data, the same on every device and in every layout."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from impls.interface.problem import Problem

TORCH_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Inputs:
    """The tensors of one problem.

    q (B, H, T_q, d_h), k (B, H_kv, T_kv, d_h), v (B, H_kv, T_kv, d_v), and d_out (B, H, T_q, d_v),
    the gradient that arrives at the output, for the backward pass. A variable-length batch has its
    sequences one after another along T, with B = 1: `Problem.joined`.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    d_out: torch.Tensor


def copy_of(inputs: Inputs) -> Inputs:
    """The same values in memory of their own, for `put_back`."""
    return Inputs(*(getattr(inputs, field.name).clone() for field in fields(Inputs)))


def put_back(inputs: Inputs, before: Inputs) -> list[str]:
    """The names of the tensors that differ from `before`, which are made equal to it again.

    Inputs are shared by all implementations of a problem: one that writes into them would spoil
    every later one.
    """
    changed = []
    for name in (field.name for field in fields(Inputs)):
        tensor, was = getattr(inputs, name), getattr(before, name)
        if not torch.equal(tensor, was):
            changed.append(name)
            # Past autograd, which would call what a graph has saved of it out of date.
            tensor.data.copy_(was)
    return changed


def make_inputs(problem: Problem, device: str, seed: int = 0) -> Inputs:
    """Normal data (mean 0, deviation 1) for a problem, each tensor from a seed of its own.

    Constant or zero data would draw less power and run faster than what is measured for. The
    values are drawn on the CPU in float32 and cast, so they depend on the logical shape and the
    seed alone, neither on the device nor on the layout. Layouts, all seen as (B, H, T, d):

    - bhtd: contiguous.
    - bthd: storage (B, T, H, d), as a projection leaves it.
    - packed: q, k and v in one storage (B, T, 3, H, d), as one joint projection leaves them.

    Only packed inputs share storage; d_out never does, and lies as the layout's output would.
    """
    problem = problem.joined
    kv = (problem.B, problem.H_kv, problem.T_kv)
    shapes = (
        (problem.B, problem.H, problem.T_q, problem.d_h),
        (*kv, problem.d_h),
        (*kv, problem.d_v),
        (problem.B, problem.H, problem.T_q, problem.d_v),
    )
    places = [torch.empty(0)] * 4
    if problem.layout == "packed":
        joint = _empty((problem.B, problem.T_q, 3, problem.H, problem.d_h), problem, device)
        places[:3] = joint.permute(2, 0, 3, 1, 4).unbind()
        places[3] = _place(shapes[3], problem, device)
    else:
        places = [_place(shape, problem, device) for shape in shapes]
    for i, place in enumerate(places):
        generator = torch.Generator().manual_seed(4 * seed + i)
        place.copy_(torch.randn(place.shape, generator=generator))
    return Inputs(*places)


def _place(shape: tuple[int, ...], problem: Problem, device: str) -> torch.Tensor:
    """Uninitialised memory for one tensor, seen as (B, H, T, d)."""
    if problem.layout == "bhtd":
        return _empty(shape, problem, device)
    B, H, T, d = shape
    return _empty((B, T, H, d), problem, device).transpose(1, 2)


def _empty(shape: tuple[int, ...], problem: Problem, device: str) -> torch.Tensor:
    return torch.empty(shape, dtype=TORCH_DTYPES[problem.dtype], device=device)

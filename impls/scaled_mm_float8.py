"""The formula by torch's float8 products: q, k, weights and v in e4m3; approximate by design.

Each tensor of a head is divided by its largest number over 448, e4m3's own, and rounded inside the
clock; `torch.nn.functional.scaled_mm` multiplies by both steps again and gives float32. Between
the two products stands the softmax in float32, the whole score matrix of a head in memory. Sizes
that are no multiples of 16, as the product asks on CUDA, are padded. CPUs have no float8 product:
torch converts there, which shows that it is right and says nothing of speed.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from impls.interface.attention import Capabilities
from impls.interface.cost import compulsory_bytes
from impls.interface.foreign_kernel import (
    Call,
    ForeignKernel,
    Given,
    Wanted,
    against_capability,
)
from impls.interface.masking import causal_mask
from impls.interface.problem import DTYPES, Problem

ALLOWED_ERROR = 0.16
"""Three times the rounding of four float8 factors, each 2.6 % in the mean square: e4m3 has 3 bits
after the first, so a relative error is even within ±2⁻⁴ / m for a mantissa m in [1, 2)."""
LARGEST_SCORE = 16.0
"""A score is off by 3.7 % of the size of scores, about a quarter of the largest of a few hundred
(normal data): at 16 a weight is off by 15 %, and beyond it the errors above no longer hold."""
_LARGEST = torch.finfo(torch.float8_e4m3fn).max
_SMALLEST_STEP = torch.finfo(torch.float32).tiny
_MULTIPLE = 16


def build(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem; see `Build`. The causal mask is made here."""
    unseen = None
    if problem.causal:
        unseen = ~causal_mask(problem.T_q, problem.T_kv, problem.window, device)

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        (B, H, T_q, d_h), (_, H_kv, _, d_v) = q.shape, v.shape
        # The queries of one kv head stand in one matrix.
        grouped = q.reshape(B * H_kv, H // H_kv * T_q, d_h)
        heads = zip(grouped, k.flatten(0, 1), v.flatten(0, 1), strict=True)
        out = torch.stack([_head(*head, wanted.scale, unseen) for head in heads])
        return out.to(q.dtype).view(B, H, T_q, d_v), None

    return call


def _head(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, unseen: torch.Tensor | None
) -> torch.Tensor:
    """Attention of the queries (rows, d_h) of one kv head → (rows, d_v) in float32."""
    scores = _product(q, k) * scale
    if unseen is not None:
        scores.view(-1, *unseen.shape).masked_fill_(unseen, -torch.inf)
    weights = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return _product(weights, v.mT) / weights.sum(-1, keepdim=True)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of a (n, m) and b (p, m) transposed, both rounded → (n, p) in float32."""
    (a8, a_step), (b8, b_step) = _rounded(a), _rounded(b, _MULTIPLE)
    each = F.ScalingType.TensorWise
    product = F.scaled_mm(a8, b8.mT, a_step, each, b_step, each, output_dtype=torch.float32)
    return product[:, : b.shape[0]]


def _rounded(matrix: torch.Tensor, rows_multiple: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The matrix in float8, padded with zeros, and what its numbers are to be multiplied by."""
    step = (matrix.abs().amax().float() / _LARGEST).clamp(min=_SMALLEST_STEP)
    rows, columns = matrix.shape
    padded = F.pad(matrix.float() / step, (0, -columns % _MULTIPLE, 0, -rows % rows_multiple))
    return padded.to(torch.float8_e4m3fn).contiguous(), step


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    reasons = against_capability(lambda capability: capability >= (8, 9), "8.9 or newer")
    if problem.around is not None:
        reasons.append("an approximation is measured by itself, not within a layer")
    return reasons


def algorithmic_bytes(problem: Problem, pass_: str) -> int:
    """The compulsory bytes, and S (float32) and P (float8) written and read once."""
    return compulsory_bytes(problem, pass_) + 2 * (4 + 1) * problem.B * problem.H * _pairs(problem)


def scratch_bytes(problem: Problem, pass_: str) -> int:
    """Of the heads of one kv head S, two copies of P, and P in float8; the mask, twice."""
    heads = problem.H // problem.H_kv
    return (3 * 4 + 1) * heads * _pairs(problem) + (2 * _pairs(problem) if problem.causal else 0)


def _pairs(problem: Problem) -> int:
    return problem.T_q * problem.T_kv


KERNEL = ForeignKernel(
    name="scaled_mm_float8",
    summary="the formula by torch's float8 products: approximate, its error beside its speed",
    capabilities=Capabilities(
        devices=("cuda",), passes=("forward",), needs=("scale",), further=_further
    ),
    library="torch",
    runs=("_scaled_mm",),
    build=build,
    install="pip install --upgrade torch",
    at_least=(2, 10),
    allowed_error=ALLOWED_ERROR,
    largest_score=dict.fromkeys(DTYPES, LARGEST_SCORE),
)

scaled_mm_float8 = replace(
    KERNEL.implementation(), algorithmic_bytes=algorithmic_bytes, scratch_bytes=scratch_bytes
)

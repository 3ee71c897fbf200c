"""OpenVINO's ScaledDotProductAttention on a CPU, float32 computed in float32."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import torch

from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.interface.inputs import TORCH_DTYPES
from impls.interface.masking import additive, causal_mask, nothing_attended
from impls.interface.problem import Problem

LARGEST_SCORE = 16.0
"""In bfloat16 it is the less exact the larger the scores are: twice torch's error at ordinary
ones, which is allowed, and up to seven times what is allowed at about 100 (OpenVINO 2026.4)."""
_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attention by the compiled operator; see `attend`. New sizes or arguments compile anew."""
    _refuse(q, k, v, causal, {"a sliding window": window, "mask": mask, "softcap": softcap})
    if 0 in (*q.shape, *v.shape):
        return nothing_attended(q, k, v)
    (B, H, T_q, _), (_, H_kv, _, d_v) = q.shape, v.shape
    # It shares one key head between the heads of a batch: a group of heads is a batch of its own.
    folded = [t.reshape(B * H_kv, -1, t.shape[2], t.shape[3]).contiguous() for t in (q, k, v)]
    shapes = tuple(tuple(t.shape) for t in folded)
    request, _ = _request(shapes, q.dtype, causal, scale, torch.get_num_threads())
    out = q.new_empty(B, H, T_q, d_v)
    for i, tensor in enumerate(folded):
        request.set_input_tensor(i, _shared(tensor))
    request.set_output_tensor(0, _shared(out.view(B * H_kv, -1, T_q, d_v)))
    request.infer()
    return out


def _refuse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    lacking: dict[str, Any],
) -> None:
    reasons = []
    if q.device.type != "cpu":
        reasons.append(f"does not run on {q.device.type}")
    if q.dtype not in _TYPES:
        reasons.append(f"dtype {str(q.dtype).removeprefix('torch.')} is not supported")
    reasons += _blind_rows(causal, q.shape[2], k.shape[2])
    reasons += [f"{name} is not supported" for name, asked in lacking.items() if asked is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)):
        reasons.append("backward is not supported")
    if reasons:
        raise Unsupported(*reasons)


def _blind_rows(causal: bool, T_q: int, T_kv: int) -> list[str]:
    """The reason when some query sees no key: it gives NaN there."""
    return [f"causal with T_q={T_q} above T_kv={T_kv}"] if causal and T_q > T_kv > 0 else []


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    return _blind_rows(problem.causal, problem.T_q, problem.T_kv)


def _shared(tensor: torch.Tensor) -> Any:
    """A tensor of OpenVINO's over the same memory."""
    import openvino  # pyright: ignore[reportMissingImports]  # an extra, not in the lock

    kind = getattr(openvino.Type, _TYPES[tensor.dtype])
    # numpy has no bfloat16: its memory is told by shape and type.
    numbers = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    return openvino.Tensor(numbers.detach().numpy(), openvino.Shape(list(tensor.shape)), kind)


# What is causal keeps its mask: few are kept.
@functools.lru_cache(maxsize=2)
def _request(
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    causal: bool,
    scale: float | None,
    threads: int,
) -> tuple[Any, torch.Tensor | None]:
    """A request of the operator compiled for these sizes, and the mask that it reads.

    Its own causal mask is aligned top-left, and compiling it takes seconds at T = 4096, as it
    becomes a constant of T_q · T_kv numbers. The same as an input computes as fast.
    """
    import numpy as np
    import openvino  # pyright: ignore[reportMissingImports]  # an extra, not in the lock
    from openvino import opset13  # pyright: ignore[reportMissingImports]  # the same

    element = getattr(openvino.Type, _TYPES[dtype])
    bias = None
    T_q, T_kv = shapes[0][2], shapes[1][2]
    if causal and T_q > 1:
        bias = additive(causal_mask(T_q, T_kv, None, "cpu"), dtype)[None, None]
        shapes = (*shapes, tuple(bias.shape))
    inputs = [opset13.parameter(openvino.PartialShape(list(shape)), element) for shape in shapes]
    arguments: list[Any] = list(inputs)
    if scale is not None:
        # The scale comes after a mask; a 0 masks nothing.
        wanted = [0.0, scale] if bias is None else [scale]
        arguments += [opset13.constant(np.array(x, np.float32), element) for x in wanted]
    settings = {
        # Else float32 is computed in bfloat16 where the CPU has it.
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(threads),
        "NUM_STREAMS": "1",
    }
    model = openvino.Model([opset13.scaled_dot_product_attention(*arguments)], inputs)
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    if bias is not None:
        request.set_input_tensor(3, _shared(bias))
    return request, bias


def _scratch_bytes(problem: Problem, pass_: str) -> int:
    """The causal mask, as numbers and, while it is made, twice as bool."""
    of_each = TORCH_DTYPES[problem.dtype].itemsize + 2
    return of_each * problem.T_q * problem.T_kv if problem.causal else 0


def unavailable(device: str) -> list[str]:
    """Reasons why OpenVINO cannot be called here, and what to type."""
    is_missing = importlib.util.find_spec("openvino") is None
    return ["openvino is not installed: pip install openvino"] if is_missing else []


openvino_sdpa = Implementation(
    name="openvino_sdpa",
    forward=forward,
    summary="OpenVINO's ScaledDotProductAttention, float32 in float32",
    capabilities=Capabilities(
        devices=("cpu",),
        passes=("forward",),
        needs=("scale",),
        window=False,
        further=_further,
    ),
    scratch_bytes=_scratch_bytes,
    unavailable=unavailable,
    library="openvino",
    largest_score={"bfloat16": LARGEST_SCORE},
)

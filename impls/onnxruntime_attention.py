"""ONNX Runtime's attention on a CPU: MultiHeadAttention, and GroupQueryAttention for the rest."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import torch

from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.interface.masking import nothing_attended
from impls.interface.problem import Problem

# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
# MultiHeadAttention is the faster in full, but materialises the scores when it is causal.
_FULL, _GROUPED = "MultiHeadAttention", "GroupQueryAttention"
_DOMAIN = "com.microsoft"
_DTYPES = {torch.float32: "float32", torch.float16: "float16"}
_OPSET, _IR_VERSION = 17, 8
"""Old ones, which every ONNX Runtime of the range reads."""


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
    """Attention by one operator; see `attend`. A session is made when arguments are new."""
    (B, H, T_q, d_h), (_, H_kv, T_kv, d_v) = q.shape, v.shape
    operator = _operator(q.dtype == torch.float32, H_kv == H, causal, softcap is not None)
    reasons = _against(operator, T_q, T_kv, d_h, d_v)
    if q.dtype not in _DTYPES:
        reasons.append(f"dtype {str(q.dtype).removeprefix('torch.')} is not supported")
    if q.device.type != "cpu":
        reasons.append(f"does not run on {q.device.type}")
    if mask is not None:
        reasons.append("mask is not supported")
    if scale == 0.0:
        reasons.append("scale=0.0 is not supported: to the operator 0 is the default")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)):
        reasons.append("backward is not supported")
    if 0 in (*q.shape, *v.shape):
        return nothing_attended(q, k, v)
    if reasons:
        raise Unsupported(*reasons)
    given = {"query": _rows(q), "key": _rows(k), "value": _rows(v)}
    if operator == _GROUPED:
        given["seqlens_k"] = torch.full((B,), T_kv - 1, dtype=torch.int32)
        given["total_sequence_length"] = torch.tensor(T_kv, dtype=torch.int32)
    stated = (operator, H, H_kv, _DTYPES[q.dtype], causal, window, scale, softcap)
    out = q.new_empty(B, T_q, H * d_v)
    _run(_session(*stated, torch.get_num_threads()), given, out)
    return out.view(B, T_q, H, d_v).transpose(1, 2)


def _operator(is_float32: bool, has_equal_heads: bool, causal: bool, has_softcap: bool) -> str:
    is_simple = is_float32 and has_equal_heads and not causal and not has_softcap
    return _FULL if is_simple else _GROUPED


def _against(operator: str, T_q: int, T_kv: int, d_h: int, d_v: int) -> list[str]:
    """What an operator lacks, as ONNX Runtime 1.32 says when it is called."""
    if operator == _FULL:
        return []
    reasons = []
    if T_q != T_kv:
        reasons.append(f"{operator} with T_q={T_q} and T_kv={T_kv}: only T_q = T_kv")
    if d_h % 8:
        reasons.append(f"d_h={d_h} is not a multiple of 8, as {operator} asks")
    if d_v != d_h:
        reasons.append(f"d_v={d_v} differs from d_h={d_h}, which {operator} refuses")
    return reasons


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    operator = _operator(
        problem.dtype == "float32", problem.H_kv == problem.H, problem.causal, "softcap" in needs
    )
    if problem.is_empty:
        return []
    return _against(operator, problem.T_q, problem.T_kv, problem.d_h, problem.d_v)


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """(B, H, T, d) as (B, T, H·d): a view of a bthd tensor, else a copy, inside the clock."""
    return tensor.transpose(1, 2).flatten(2).contiguous()


def _run(session: Any, given: dict[str, torch.Tensor], out: torch.Tensor) -> None:
    """One run that reads and writes the tensors where they are."""
    binding = session.io_binding()
    for name, tensor in given.items():
        binding.bind_input(name, *_place(tensor))
    binding.bind_output("output", *_place(out))
    session.run_with_iobinding(binding)


def _place(tensor: torch.Tensor) -> tuple[str, int, Any, list[int], int]:
    """Device, device number, dtype, shape and address, as a binding takes them."""
    import numpy as np

    dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
    return "cpu", 0, dtype, list(tensor.shape), tensor.data_ptr()


# A session keeps the memory of its largest run: few are kept.
@functools.lru_cache(maxsize=2)
def _session(
    operator: str,
    H: int,
    H_kv: int,
    dtype: str,
    causal: bool,
    window: int | None,
    scale: float | None,
    softcap: float | None,
    threads: int,
) -> Any:
    """A session of a graph of this one operator, for tensors of any size."""
    import onnxruntime  # pyright: ignore[reportMissingImports]  # an extra, not in the lock
    from onnx import TensorProto, helper  # pyright: ignore[reportMissingImports]  # the same

    attributes: dict[str, Any] = {"num_heads": H}
    attributes |= {} if scale is None else {"scale": scale}
    inputs, outputs = ["query", "key", "value"], ["output"]
    integers: list[str] = []
    if operator == _GROUPED:
        attributes |= {"kv_num_heads": H_kv, "causal": int(causal)}
        attributes |= {} if window is None else {"local_window_size": window}
        attributes |= {} if softcap is None else {"softcap": softcap}
        integers = ["seqlens_k", "total_sequence_length"]
        # Without past_key and past_value; the cache it begins stays inside the graph.
        inputs, outputs = [*inputs, "", "", *integers], ["output", "present_key", "present_value"]
    element = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}[dtype]
    floats = ("query", "key", "value")
    described = [(name, element) for name in floats] + [(n, TensorProto.INT32) for n in integers]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, outputs, domain=_DOMAIN, **attributes)],
        operator,
        [helper.make_tensor_value_info(name, kind, None) for name, kind in described],
        [helper.make_tensor_value_info("output", element, None)],
    )
    domains = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=_IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its threads wait busily for the next run; between runs they would slow what is measured next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # Errors are raised; without this they are printed as well.
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def unavailable(device: str) -> list[str]:
    """Reasons why ONNX Runtime cannot be called here, and what to type."""
    missing = [name for name in ("onnxruntime", "onnx") if importlib.util.find_spec(name) is None]
    return [f"{name} is not installed: pip install onnxruntime onnx" for name in missing]


onnxruntime = Implementation(
    name="onnxruntime",
    forward=forward,
    summary="ONNX Runtime, MultiHeadAttention; causal or grouped GroupQueryAttention",
    capabilities=Capabilities(
        devices=("cpu",),
        dtypes=tuple(_DTYPES.values()),
        passes=("forward",),
        needs=("scale", "softcap"),
        further=_further,
    ),
    unavailable=unavailable,
    library="onnxruntime",
)

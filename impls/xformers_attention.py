"""xformers' memory_efficient_attention, each of its operators pinned and on its own."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from impls.interface.attention import Capabilities, Forward, Implementation, Unsupported
from impls.interface.masking import additive, dead_rows, nothing_attended
from impls.interface.problem import Problem
from impls.interface.sequences import has_blind_queries

_16_BIT = ("bfloat16", "float16")
_SPLITK_SIZES, _MODULE = (16, 32, 64, 128, 256, 512), {"splitk": "triton_splitk"}
# cutlass and flash take (B, T, H, d), BMHK. For grouped heads flash and splitk read one kv head
# for its whole group from (B, T, H_kv, H / H_kv, d), BMGHK, where k and v are expanded for nothing;
# cutlass would start one stream a group there, so its k and v are repeated, inside the clock.
_GROUPED_LAYOUT = ("flash", "splitk")


def _forward(
    operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any
) -> torch.Tensor:
    """Attention by one operator; see `attend`."""
    return _attention(operator, q, k, v, with_lse=False, **arguments)[0]


def _forward_with_lse(
    operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same → (out, lse (B, H, T_q)); without gradients."""
    out, lse = _attention(operator, q, k, v, with_lse=True, **arguments)
    if lse is None:
        raise RuntimeError(f"xformers {operator} returned no lse")
    return out, lse


def _attention(
    operator: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    with_lse: bool,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    _refuse(operator, q, k, v, causal, window, mask, softcap)
    (B, H, T_q, _), T_kv = q.shape, k.shape[2]
    if 0 in (B, T_q, T_kv):
        return nothing_attended(q, k, v), q.new_full((B, H, T_q), -torch.inf, dtype=torch.float32)
    if causal and T_q > T_kv:
        # The first queries see no key, and the rest is square.
        dead = T_q - T_kv
        rest = q.narrow(2, dead, T_kv)
        out, lse = _attention(
            *(operator, rest, k, v), with_lse=with_lse, causal=True, window=window, scale=scale
        )
        lse = None if lse is None else F.pad(lse, (dead, 0), value=-torch.inf)
        return F.pad(out, (0, 0, dead, 0)), lse
    dead_row = None
    if mask is not None:
        dead_row = dead_rows(mask)
        mask = mask | dead_row if mask.dtype == torch.bool else mask.masked_fill(dead_row, 0.0)
    bias = _bias(causal, window, mask, q, k)
    out, lse = _call(operator, *_laid_out(operator, q, k, v), bias, scale, with_lse)
    out = out.reshape(B, T_q, H, v.shape[3]).transpose(1, 2)
    lse = None if lse is None else lse.reshape(B, H, -1).narrow(2, 0, T_q).float()
    if dead_row is not None:
        out = out.masked_fill(dead_row, 0.0)
        lse = None if lse is None else lse.masked_fill(dead_row.squeeze(-1), -torch.inf)
    return out, lse


def _refuse(
    operator: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    window: int | None,
    mask: torch.Tensor | None,
    softcap: float | None,
) -> None:
    reasons = []
    if q.device.type == "cpu":
        reasons.append("does not run on cpu")
    if softcap is not None:
        reasons.append("softcap is not supported")
    strides = [tensor.stride(-1) for tensor in (q, k, v)]
    if strides != [1, 1, 1]:
        reasons.append(f"last-dim stride: q, k, v have {strides}, fused kernels need 1")
    if mask is not None and operator != "cutlass":
        reasons.append("mask is not supported")
    if mask is not None and mask.requires_grad:
        reasons.append("a mask that requires grad is not supported")
    if operator == "splitk" and causal and (q.shape[2] > 1 or window is not None):
        reasons.append(f"causal with T_q={q.shape[2]}: a decode step only, without a window")
    if reasons:
        raise Unsupported(*reasons)


def _laid_out(
    operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k and v as the operator takes them, BMHK or BMGHK: see `_GROUPED_LAYOUT`."""
    H, H_kv = q.shape[1], k.shape[1]
    group = H // H_kv
    if operator in _GROUPED_LAYOUT and (group > 1 or operator == "splitk"):
        grouped = q.unflatten(1, (H_kv, group)).permute(0, 3, 1, 2, 4)
        once = (t.transpose(1, 2).unsqueeze(3).expand(-1, -1, -1, group, -1) for t in (k, v))
        return grouped, *once  # type: ignore[return-value]  # two tensors, k and v
    if group > 1:
        k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _bias(
    causal: bool,
    window: int | None,
    mask: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
) -> Any:
    """The mask as an object of xformers; its causal ones here are aligned bottom-right."""
    from xformers.ops.fmha import attn_bias

    (B, H, T_q, _), T_kv = q.shape, k.shape[2]
    if window is not None:
        return attn_bias.LowerTriangularFromBottomRightLocalAttentionMask(window)
    if causal and T_q > 1:
        return attn_bias.LowerTriangularFromBottomRightMask()
    if mask is None:
        return None
    # Rows of a bias tensor must start at multiples of 8 elements, its heads may be one in memory.
    whole_rows = mask.expand(*mask.shape[:-2], T_q, T_kv)
    padded = q.new_zeros(*whole_rows.shape[:-1], -(-T_kv // 8) * 8)[..., :T_kv]
    padded.copy_(additive(whole_rows, q.dtype))
    return padded.expand(B, H, T_q, T_kv)


def bias_of_lengths(problem: Problem, device: str) -> Any:
    """The sequences of a variable-length batch as an object of xformers, causal bottom-right."""
    from xformers.ops.fmha.attn_bias import BlockDiagonalMask

    T_q, T_kv = ([getattr(one, n) for one in problem.sequences] for n in ("T_q", "T_kv"))
    blocks = BlockDiagonalMask.from_seqlens(T_q, T_kv, device=torch.device(device))
    if problem.window is not None:
        return blocks.make_local_attention_from_bottomright(problem.window)
    return blocks.make_causal_from_bottomright() if problem.causal else blocks


def _prepare_lengths(operator: str, problem: Problem, device: str) -> Forward:
    bias = bias_of_lengths(problem, device)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = _call(operator, *_laid_out(operator, q, k, v), bias, None, False)[0]
        return out.reshape(1, out.shape[1], -1, v.shape[3]).transpose(1, 2)

    return attention


def _call(
    operator: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Any,
    scale: float | None,
    with_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    from xformers.ops import fmha

    module = importlib.import_module(f"xformers.ops.fmha.{_MODULE.get(operator, operator)}")
    try:
        if with_lse:
            return fmha.memory_efficient_attention_forward_requires_grad(
                q, k, v, bias, scale=scale, op=module.FwOp
            )
        pinned = (module.FwOp, getattr(module, "BwOp", None))
        return fmha.memory_efficient_attention(q, k, v, bias, scale=scale, op=pinned), None
    except (ValueError, NotImplementedError) as error:
        # xformers says by these two that an operator refuses inputs; all else they say is a fault.
        text = str(error)
        if "does not support inputs" not in text and "is not supported because" not in text:
            raise
        reasons = [line.strip() for line in text.splitlines()]
        raise Unsupported(f"{operator} refuses: {'; '.join(r for r in reasons if r)}") from error


def unavailable(device: str) -> list[str]:
    """Reasons why xformers cannot run here, from its build metadata and, on CUDA, its import."""
    found = importlib.util.find_spec("xformers")
    if found is None or not found.submodule_search_locations:
        return ["xformers is not installed"]
    reasons = ["does not run on cpu"] if device == "cpu" else []
    metadata = Path(found.submodule_search_locations[0]) / "cpp_lib.json"
    if not metadata.is_file():
        return [*reasons, "xformers was installed without its extension (no cpp_lib.json)"]
    built_for = json.loads(metadata.read_text(encoding="utf-8"))["version"]["torch"]
    has_loaded = device != "cpu" and _import_quietly()
    if not has_loaded and built_for != torch.__version__:
        reasons.append(
            f"xformers {version('xformers')} was built for torch {built_for}, "
            f"this is {torch.__version__}"
        )
    elif not has_loaded and device != "cpu":
        reasons.append(f"xformers {version('xformers')} could not load its extension")
    return reasons


def _import_quietly() -> bool:
    """Whether xformers' extension loads; what it warns of at import is told as a reason by us."""
    logger = logging.getLogger("xformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = importlib.import_module("xformers._cpp_lib")
            importlib.import_module("xformers.ops.fmha")
    finally:
        logger.setLevel(level)
    return library._cpp_library_load_exception is None


def _further(operator: str, problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What an operator lacks, as its class in xformers.ops.fmha declares it (0.0.35)."""
    reasons = ["a query sees no key"] if problem.lengths and has_blind_queries(problem) else []
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else None
    if capability is not None:
        found = ".".join(map(str, capability))
        if operator == "cutlass" and capability > (9, 0):
            reasons.append(f"needs compute capability 9.0 or less, this device has {found}")
        if operator != "cutlass" and capability < (8, 0):
            reasons.append(f"needs compute capability 8.0, this device has {found}")
    if operator == "splitk":
        if problem.d_h not in _SPLITK_SIZES:
            reasons.append(f"d_h={problem.d_h} is not one of {', '.join(map(str, _SPLITK_SIZES))}")
        if problem.causal and problem.T_q > 1:
            reasons.append(f"causal with T_q={problem.T_q}: a decode step only")
    else:
        step = 8 if problem.dtype in _16_BIT else 4
        for size in ("d_h", "d_v"):
            if getattr(problem, size) % step and (size == "d_h" or problem.d_v != problem.d_h):
                reasons.append(f"{size}={getattr(problem, size)} is not a multiple of {step}")
    return reasons


def _pinned(operator: str, summary: str, runs: tuple[str, ...], **can: Any) -> Implementation:
    return Implementation(
        name=f"xformers_{operator}",
        forward=partial(_forward, operator),
        forward_with_lse=partial(_forward_with_lse, operator),
        summary=summary,
        capabilities=Capabilities(devices=("cuda",), further=partial(_further, operator), **can),
        prepare_lengths=None if operator == "splitk" else partial(_prepare_lengths, operator),
        runs=runs,
        unavailable=unavailable,
        library="xformers",
    )


xformers_cutlass = _pinned(
    "cutlass",
    "xformers, the CUTLASS kernel",
    ("_efficient_attention_forward", "fmha_cutlassF"),
    needs=("backward", "lse", "mask", "scale"),
)
xformers_flash = _pinned(
    "flash",
    "xformers, FlashAttention",
    ("xformers_flash::flash_fwd", "_flash_attention_forward", "flash_fwd"),
    dtypes=_16_BIT,
    needs=("backward", "lse", "scale"),
    max_d_h=256,
    d_v_may_differ=False,
)
xformers_splitk = _pinned(
    "splitk",
    "xformers, the split-KV decode kernel in Triton",
    ("_fwd_kernel_splitK",),
    dtypes=_16_BIT,
    passes=("forward",),
    needs=("lse", "scale"),
    d_v_may_differ=False,
    window=False,
)

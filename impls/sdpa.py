"""PyTorch's scaled_dot_product_attention, each of its kernels pinned and on its own."""

from __future__ import annotations

import warnings
from functools import partial
from types import TracebackType
from typing import Any

import torch
import torch.nn.functional as F

from impls.interface.attention import Capabilities, Forward, Implementation, Unsupported
from impls.interface.masking import (
    additive,
    causal_mask,
    dead_rows,
    nothing_attended,
    scale_or_default,
)
from impls.interface.problem import DTYPES, Problem
from impls.interface.sequences import bytes_of_each, each_alone
from impls.interface.unfused import algorithmic_bytes, scratch_bytes

_FUSED = ("flash", "efficient", "cudnn")
_16_BIT = ("bfloat16", "float16")


class _Pinned:
    """Only one kernel may be chosen while this is entered, as `sdpa_kernel` does.

    `torch.nn.attention.sdpa_kernel` costs 22 µs a call inside the clock, these switches 6 µs.
    """

    _switches = (
        ("math", torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
        ("flash", torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
        (
            "efficient",
            torch.backends.cuda.mem_efficient_sdp_enabled,
            torch.backends.cuda.enable_mem_efficient_sdp,
        ),
        ("cudnn", torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    )

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel

    def __enter__(self) -> None:
        self._before = [is_enabled() for _, is_enabled, _ in self._switches]
        for kernel, _, enable in self._switches:
            enable(kernel == self._kernel)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for (_, _, enable), before in zip(self._switches, self._before, strict=True):
            enable(before)


def _forward(
    kernel: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    causal_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention by one kernel; see `attend`. `causal_bias`: the rectangular causal mask, ready.

    torch's own `is_causal` is aligned top-left, so it is used for T_q = T_kv only. Of T_q > T_kv
    the first queries see no key, and the rest is square.
    """
    _refuse(kernel, q, k, v, window=window, mask=mask, softcap=softcap)
    T_q, T_kv = q.shape[2], k.shape[2]
    if causal and T_q > T_kv:
        out = _forward(kernel, q[:, :, T_q - T_kv :], k, v, causal=True, scale=scale)
        return F.pad(out, (0, 0, T_q - T_kv, 0))
    dead = None
    if mask is not None:
        mask = _four_dimensional(mask)
        if q.device.type != "cpu":
            # The CPU kernels give 0 for a row without a key; the others are not relied on.
            dead = dead_rows(mask)
            mask = mask | dead if mask.dtype == torch.bool else mask.masked_fill(dead, 0.0)
    if causal and 1 < T_q < T_kv:
        mask = causal_bias if causal_bias is not None else _rectangular_causal(kernel, q, k)
    is_causal = causal and T_q == T_kv
    # CausalBias is a tensor subclass: F.scaled_dot_product_attention hands over to it.
    call = partial(
        F.scaled_dot_product_attention,
        *(q, k, v, mask, 0.0, is_causal),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    try:
        with _Pinned(kernel):
            out = call()
    except (RuntimeError, UserWarning) as error:
        raise _why_no_kernel(kernel, call, error) from error
    return out if dead is None else out.masked_fill(dead, 0.0)


def _refuse(
    kernel: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    window: int | None,
    mask: torch.Tensor | None,
    softcap: float | None,
) -> None:
    reasons = []
    if window is not None:
        reasons.append("a sliding window is not supported")
    if softcap is not None:
        reasons.append("softcap is not supported")
    if kernel in _FUSED:
        strides = [tensor.stride(-1) for tensor in (q, k, v)]
        if strides != [1, 1, 1]:
            reasons.append(f"last-dim stride: q, k, v have {strides}, fused kernels need 1")
        if mask is not None and mask.requires_grad:
            reasons.append("a mask that requires grad is not supported")
    if kernel == "flash":
        if mask is not None and q.device.type == "cuda":
            reasons.append("mask is not supported on cuda")
        if v.shape[3] != q.shape[3]:
            reasons.append(f"d_v={v.shape[3]} differs from d_h={q.shape[3]}")
    if kernel == "efficient" and q.shape[1] != k.shape[1]:
        reasons.append(
            f"H_kv={k.shape[1]} differs from H={q.shape[1]}: grouped heads are not supported"
        )
    if reasons:
        raise Unsupported(*reasons)


def _why_no_kernel(kernel: str, call: partial, error: Exception) -> Exception:
    """`error`, or `Unsupported` with all that torch says when it has no kernel for the call."""
    with warnings.catch_warnings(record=True) as said, _Pinned(kernel):
        warnings.simplefilter("always")
        try:
            call()
        except RuntimeError as again:
            error = again
    text = str(error).splitlines()[0]
    if not text.startswith(("No available kernel", "No viable backend")):
        return error
    reasons = [str(warning.message).split(" (Triggered internally")[0] for warning in said]
    return Unsupported(f"{kernel}: {text}", *(r for r in reasons if not r.endswith("because:")))


def _four_dimensional(mask: torch.Tensor) -> torch.Tensor:
    """The fused kernels refuse masks of one or three dimensions."""
    return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)


def _rectangular_causal(kernel: str, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The bottom-right causal mask in the form in which the kernel takes it."""
    T_q, T_kv = q.shape[2], k.shape[2]
    if q.device.type == "cuda" and kernel in ("flash", "efficient"):
        from torch.nn.attention.bias import causal_lower_right

        return causal_lower_right(T_q, T_kv)
    return causal_mask(T_q, T_kv, None, q.device)


def _prepare(kernel: str, problem: Problem, device: str) -> Forward:
    """The forward of one problem; the mask that a rectangular causal one needs is built here."""
    bias = None
    takes_a_mask = device == "cpu" or kernel not in ("flash", "efficient")
    if problem.causal and 1 < problem.T_q < problem.T_kv and takes_a_mask:
        visible = causal_mask(problem.T_q, problem.T_kv, None, device)
        bias = additive(visible, getattr(torch, problem.dtype))
    return partial(_forward, kernel, causal=problem.causal, window=problem.window, causal_bias=bias)


def _flash_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of the flash kernel's own operator, which returns both."""
    _refuse("flash", q, k, v, window=window, mask=mask, softcap=softcap)
    (B, H, T_q, d_h), T_kv = q.shape, k.shape[2]
    if 0 in (B, T_q, T_kv):
        return nothing_attended(q, k, v), q.new_full((B, H, T_q), -torch.inf, dtype=torch.float32)
    if causal and T_q > T_kv:
        out, lse = _flash_with_lse(q[:, :, T_q - T_kv :], k, v, causal=True, scale=scale)
        return F.pad(out, (0, 0, T_q - T_kv, 0)), F.pad(lse, (T_q - T_kv, 0), value=-torch.inf)
    factor = scale_or_default(scale, d_h)
    if q.device.type == "cuda":
        if d_h % 8:
            raise Unsupported(f"lse with d_h={d_h} on cuda: not a multiple of 8")
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        # This operator, unlike the function above it, aligns its is_causal bottom-right.
        out, lse = flash(q, k, v, 0.0, causal and T_q > 1, scale=factor)[:2]
        return out, lse
    if causal and 1 < T_q < T_kv:
        mask = causal_mask(T_q, T_kv, None, q.device)
    bias = None if mask is None else additive(_four_dimensional(mask), q.dtype)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal and T_q == T_kv, attn_mask=bias, scale=factor
    )
    # The kernel leaves 0 as the lse of a row without a key.
    return out, lse if mask is None else lse.masked_fill(dead_rows(mask).squeeze(-1), -torch.inf)


def _further(kernel: str, problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What a fused kernel cannot do on CUDA: pytorch, aten/src/ATen/native/transformers/cuda.

    Ours, because torch's own `can_use_*_attention` always say False in a build without CUDA.
    """
    if device != "cuda" or kernel == "math":
        return []
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else None
    widest, reasons = max(problem.d_h, problem.d_v), []

    def against(is_against: bool, reason: str) -> None:
        if is_against:
            reasons.append(reason)

    if kernel in ("flash", "cudnn"):
        against(
            problem.dtype not in _16_BIT,
            f"dtype {problem.dtype} is not supported on cuda (only {', '.join(_16_BIT)})",
        )
        if capability is not None:
            found = ".".join(map(str, capability))
            against(capability < (8, 0), f"needs compute capability 8.0, this device has {found}")
    if kernel == "flash":
        against(widest > 256, f"d_h={widest} is above 256 on cuda")
        against("mask" in needs, "mask is not supported on cuda")
        against("lse" in needs and problem.d_h % 8 != 0, "lse needs d_h a multiple of 8 on cuda")
    if kernel == "cudnn":
        limit = 256 if capability is not None and capability[0] == 9 else 128
        against(widest > limit, f"d_h={widest} is above {limit}")
    step = {"flash": 1, "cudnn": 8, "efficient": 8 if problem.dtype in _16_BIT else 4}[kernel]
    odd = [name for name in ("d_h", "d_v") if getattr(problem, name) % step]
    for name in odd if problem.d_v != problem.d_h else odd[:1]:
        against(True, f"{name}={getattr(problem, name)} is not a multiple of {step}")
    return reasons


def _pinned(kernel: str, summary: str, runs: tuple[str, ...], **declared: Any) -> Implementation:
    can = {"window": False, "needs": ("backward", "mask", "scale"), "dtypes": DTYPES}
    can |= {"further": partial(_further, kernel)} | declared.pop("can", {})
    return Implementation(
        name=f"sdpa_{kernel}",
        forward=partial(_forward, kernel),
        summary=summary,
        capabilities=Capabilities(**can),
        prepare=partial(_prepare, kernel),
        prepare_lengths=each_alone(partial(_forward, kernel)),
        runs=runs,
        **declared,
    )


sdpa_math = _pinned(
    "math",
    "torch SDPA, its unfused path",
    ("_scaled_dot_product_attention_math",),
    algorithmic_bytes=bytes_of_each(algorithmic_bytes),
    scratch_bytes=bytes_of_each(scratch_bytes),
)
sdpa_flash = _pinned(
    "flash",
    "torch SDPA, FlashAttention (on CUDA FA2)",
    ("_scaled_dot_product_flash_attention",),
    can={"d_v_may_differ": False, "needs": ("backward", "lse", "mask", "scale")},
    forward_with_lse=_flash_with_lse,
)
sdpa_efficient = _pinned(
    "efficient",
    "torch SDPA, the memory-efficient kernel (CUTLASS)",
    ("_scaled_dot_product_efficient_attention", "_efficient_attention_forward"),
    can={"devices": ("cuda",), "gqa": False},
)
sdpa_cudnn = _pinned(
    "cudnn",
    "torch SDPA, cuDNN's fused attention",
    ("_scaled_dot_product_cudnn_attention",),
    can={"devices": ("cuda",)},
)

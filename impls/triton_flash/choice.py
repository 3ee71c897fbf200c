"""Which forward kernel computes: Hopper's own where it can, else the portable one."""

from __future__ import annotations

import torch

from impls.interface.attention import Unsupported
from impls.triton_flash import launch, launch_hopper
from impls.triton_flash.blocks_hopper import reasons_against_device
from impls.triton_flash.precision import IEEE


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    precision: str = IEEE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, H, T_q, d_v), laid out as q, and lse (B, H, T_q), float32, of one launch.

    On compute capability 9.x `triton_flash_forward_hopper`, where its launcher has nothing against
    it; else, and in the interpreter, `triton_flash_forward`. Which one ran is what a profile shows,
    by these names; why it was not the former is what `triton_flash_hopper` refuses with.

    Raises:
        Unsupported: see `launch.attend`.
    """
    arguments = {"causal": causal, "window": window, "scale": scale}
    capability = launch.capability_of(q.device)
    if capability is not None and not reasons_against_device(capability):
        try:
            return launch_hopper.attend(q, k, v, **arguments)
        except Unsupported:
            pass
    return launch.attend(q, k, v, **arguments, precision=precision)

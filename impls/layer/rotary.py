"""Rotary position embedding: queries and keys turned by angles that grow with their positions."""

from __future__ import annotations

import torch

BASE = 10000.0


class Rotary:
    """Turns pairs of elements of (…, T, d) by their position.

    Su et al. 2021, RoFormer, section 3.4, https://arxiv.org/abs/2104.09864. In a row at position
    p, element i < d/2 and element i + d/2 are a pair, turned by p · base^(−2i/d). These halves are
    how GPT-NeoX and Hugging Face's Llama pair; the paper pairs 2i with 2i + 1, which is the same
    layer with the rows of W_Q and W_K in another order.

    Angles are computed in float64, the turning in float32 for 16-bit tensors, rounded once.

    Raises:
        ValueError: d is odd, or the base is not above 0.
    """

    def __init__(self, d: int, base: float = BASE) -> None:
        if d < 2 or d % 2:
            raise ValueError(f"rotary turns pairs: d={d} must be even, 2 or more")
        if not base > 0.0:
            raise ValueError(f"rotary base={base}: give a number above 0, usually {BASE:g}")
        self.d = d
        self.base = base
        self._tables: dict[tuple[torch.dtype, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, x: torch.Tensor, start: int = 0) -> torch.Tensor:
        """The rows of x (…, T, d) turned as positions start, start + 1, … → (…, T, d)."""
        T, d = x.shape[-2:]
        if d != self.d:
            raise ValueError(f"rotary of d={self.d} was given rows of d={d}")
        work = torch.promote_types(x.dtype, torch.float32)
        cos, sin = (table[start : start + T] for table in self._table(start + T, work, x.device))
        first, second = x.to(work).chunk(2, -1)
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
        return turned.to(x.dtype)

    def frequencies(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """The angle each pair is turned by at position 1, base^(−2i/d) → float64 (d/2,)."""
        exponent = torch.arange(0, self.d, 2, dtype=torch.float64, device=device) / self.d
        return self.base**-exponent

    def _table(
        self, T: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of T positions or more, (≥ T, d/2) each; kept and grown by doubling."""
        found = self._tables.get((dtype, device))
        if found is None or found[0].shape[0] < T:
            rows = 1 << max(0, T - 1).bit_length()
            position = torch.arange(rows, dtype=torch.float64, device=device)
            angle = torch.outer(position, self.frequencies(device))
            found = (angle.cos().to(dtype), angle.sin().to(dtype))
            self._tables[dtype, device] = found
        return found

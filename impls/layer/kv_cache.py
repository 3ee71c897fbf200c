"""What a layer keeps of the tokens it has seen: preallocated rows, filled from the front."""

from __future__ import annotations

import torch


class _Rows:
    """Storage (B, H, T_max, d) of which the first rows are filled; the rest is uninitialised."""

    def __init__(
        self, B: int, H: int, T_max: int, d: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        if T_max < 1:
            raise ValueError(f"T_max={T_max}: a cache holds 1 token or more")
        self.storage = torch.empty(B, H, T_max, d, dtype=dtype, device=device)

    def write(self, name: str, rows: torch.Tensor, start: int) -> None:
        """Put rows (B, H, T, d) at start."""
        B, H, T_max, d = self.storage.shape
        if rows.ndim != 4 or (*rows.shape[:2], rows.shape[3]) != (B, H, d):
            raise ValueError(
                f"{name} {tuple(rows.shape)} does not fit a cache of (B, H, T, d) = "
                f"({B}, {H}, up to {T_max}, {d})"
            )
        if rows.dtype != self.storage.dtype or rows.device != self.storage.device:
            raise ValueError(
                f"{name} is {rows.dtype} on {rows.device}, the cache "
                f"{self.storage.dtype} on {self.storage.device}"
            )
        if torch.is_grad_enabled() and rows.requires_grad:
            raise ValueError("a cache is for inference: append under torch.no_grad()")
        if start + rows.shape[2] > T_max:
            raise ValueError(
                f"the cache holds T_max={T_max} tokens and has {start}: "
                f"{rows.shape[2]} more do not fit"
            )
        self.storage[:, :, start : start + rows.shape[2]] = rows


class _Cache:
    """The count of tokens kept, shared by both kinds."""

    def __init__(self, T_max: int, *kept: _Rows) -> None:
        self.T_max = T_max
        self.length = 0
        self._kept = kept

    @property
    def bytes(self) -> int:
        """The bytes allocated for one layer, filled or not."""
        return sum(rows.storage.numel() * rows.storage.element_size() for rows in self._kept)

    @property
    def bytes_per_token(self) -> int:
        """The bytes that one more token of all B sequences takes in one layer."""
        return self.bytes // self.T_max

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens, so that a step can be taken again.

        Raises:
            ValueError: there are not as many.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"truncate to {length}: the cache has {self.length} tokens")
        self.length = length

    def room(self, length: int) -> list[torch.Tensor]:
        """The rows after the first `length`, as views; whatever they hold."""
        return [rows.storage[:, :, length:] for rows in self._kept]


class KVCache(_Cache):
    """Keys (B, H_kv, T_max, d_h) and values (B, H_kv, T_max, d_h) of one layer.

    A window does not shorten it: the tokens that have left the window stay.
    """

    def __init__(
        self,
        *,
        B: int,
        H_kv: int,
        T_max: int,
        d_h: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        self._k = _Rows(B, H_kv, T_max, d_h, dtype, device)
        self._v = _Rows(B, H_kv, T_max, d_h, dtype, device)
        super().__init__(T_max, self._k, self._v)

    @property
    def k(self) -> torch.Tensor:
        """The keys kept, a view (B, H_kv, length, d_h)."""
        return self._k.storage[:, :, : self.length]

    @property
    def v(self) -> torch.Tensor:
        """The values kept, a view (B, H_kv, length, d_h)."""
        return self._v.storage[:, :, : self.length]

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Keep k and v (B, H_kv, T, d_h) after those already there.

        Raises:
            ValueError: they do not fit, in shape, dtype or number, or would need a gradient.
        """
        if k.shape != v.shape:
            raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)} differ")
        self._k.write("k", k, self.length)
        self._v.write("v", v, self.length)
        self.length += k.shape[2]


class LatentCache(_Cache):
    """Latents with the shared rotary keys of one MLA layer, (B, 1, T_max, d_c + d_R).

    All that is kept of a token: DeepSeek-V2 (2024), section 2.1.3, (d_c + d_R) elements a layer.
    """

    def __init__(
        self,
        *,
        B: int,
        T_max: int,
        d_c: int,
        d_R: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        self._rows = _Rows(B, 1, T_max, d_c + d_R, dtype, device)
        super().__init__(T_max, self._rows)

    @property
    def latent(self) -> torch.Tensor:
        """The rows kept, latent before rotary key, a view (B, 1, length, d_c + d_R)."""
        return self._rows.storage[:, :, : self.length]

    def append(self, latent: torch.Tensor) -> None:
        """Keep rows (B, 1, T, d_c + d_R) after those already there.

        Raises:
            ValueError: they do not fit, in shape, dtype or number, or would need a gradient.
        """
        self._rows.write("latent", latent, self.length)
        self.length += latent.shape[2]

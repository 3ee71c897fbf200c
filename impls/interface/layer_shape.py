"""The sizes of an attention layer and of a model's stack of them. No torch here.

An attention layer projects x (B, T, d_model) into H query and H_kv key and value heads, attends,
concatenates the heads and projects back. In a latent layer (MLA) the keys and values of all heads
are made from one narrow latent, which is all that is cached.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

NARROW = 16
WIDE = 256
LANES = 8


@dataclass(frozen=True)
class Latent:
    """The widths of multi-head latent attention (DeepSeek-V2, 2024, section 2.1, appendix C).

    Attributes:
        d_c: the latent that keys and values are made from.
        d_R: the rotary key shared by all heads; each query head has as much rotary part.
        d_v: of each head's value; the layer's d_h is the part of a key that is not rotary.
        d_c_q: the latent that queries are made from; None is a full query projection.
    """

    d_c: int
    d_R: int
    d_v: int
    d_c_q: int | None = None

    def __post_init__(self) -> None:
        for name, size in asdict(self).items():
            if name != "d_c_q" or size is not None:
                _check_size(name, size)


@dataclass(frozen=True)
class LayerShape:
    """One attention layer: (B, T, d_model) → (B, T, d_model).

    `d_h` defaults to d_model / H and `H_kv` to H; H·d_h need not be d_model (Gemma-7B). `window`
    keeps the last so many keys a query may see. A layer with a `latent` has no H_kv of its own.

    Raises:
        ValueError: a size is not a positive integer, H does not divide d_model and no d_h is
            given, H_kv does not divide H, or a window is given without `is_causal`.
    """

    d_model: int
    H: int
    d_h: int = -1
    H_kv: int = -1
    latent: Latent | None = None
    window: int | None = None
    is_causal: bool = True

    def __post_init__(self) -> None:
        _check_size("d_model", self.d_model)
        _check_size("H", self.H)
        if self.d_h == -1:
            if self.d_model % self.H:
                raise ValueError(
                    f"d_model={self.d_model} is not a multiple of H={self.H}: give d_h, "
                    f"or an H that divides d_model"
                )
            object.__setattr__(self, "d_h", self.d_model // self.H)
        if self.H_kv == -1:
            object.__setattr__(self, "H_kv", self.H)
        _check_size("d_h", self.d_h)
        _check_size("H_kv", self.H_kv)
        if self.H % self.H_kv:
            raise ValueError(
                f"H={self.H} is not a multiple of H_kv={self.H_kv}: "
                "each kv head serves H / H_kv query heads"
            )
        if self.latent is not None and self.H_kv != self.H:
            raise ValueError(f"a latent layer has no H_kv (H_kv={self.H_kv} was given)")
        if self.window is not None:
            _check_size("window", self.window)
            if not self.is_causal:
                raise ValueError("a window needs a causal layer: it keeps the last visible keys")

    @property
    def variant(self) -> str:
        """What such a layer is called: MLA, single-head, MHA, MQA or GQA-<H_kv>."""
        if self.latent is not None:
            return "MLA"
        if self.H == 1:
            return "single-head"
        if self.H_kv == self.H:
            return "MHA"
        return "MQA" if self.H_kv == 1 else f"GQA-{self.H_kv}"

    @property
    def as_mha(self) -> LayerShape:
        """The same layer with a key and value head for each query head, and no latent."""
        return replace(self, H_kv=self.H, latent=None)

    @property
    def layers(self) -> list[tuple[LayerShape, int]]:
        """Itself, once: what counts a stack counts a layer too."""
        return [(self, 1)]


@dataclass(frozen=True)
class ModelShape:
    """A stack of L attention layers, of which `L_window` have the window.

    Raises:
        ValueError: L is not a positive integer, or the window and L_window do not go together.
    """

    layer: LayerShape
    L: int = 1
    window: int | None = None
    L_window: int = 0

    def __post_init__(self) -> None:
        _check_size("L", self.L)
        if self.layer.window is not None:
            raise ValueError("the window belongs to the model: it says how many layers have it")
        if not 0 <= self.L_window <= self.L or bool(self.L_window) != (self.window is not None):
            raise ValueError(
                f"window={self.window} of L_window={self.L_window} of {self.L} layers: "
                "give both, or neither"
            )
        _ = self.layers  # a window is checked with its layer

    @property
    def layers(self) -> list[tuple[LayerShape, int]]:
        """Each different layer and how many there are of it."""
        kinds = [
            (self.layer, self.L - self.L_window),
            (replace(self.layer, window=self.window), self.L_window),
        ]
        return [(layer, count) for layer, count in kinds if count]

    @property
    def as_mha(self) -> ModelShape:
        """The same stack with a key and value head for each query head, and no latent."""
        return replace(self, layer=self.layer.as_mha)


Shape = LayerShape | ModelShape


def warnings_about(layer: LayerShape) -> list[str]:
    """What of a layer's sizes is allowed and probably not meant, a sentence each.

    >>> warnings_about(LayerShape(d_model=512, H=8))
    []
    """
    found = []
    d_h = layer.d_h
    if d_h < NARROW:
        found.append(
            f"d_h={d_h} is below {NARROW}: tensor cores multiply blocks of {NARROW}, and one "
            f"exponential is due for every {4 * d_h} FLOP"
        )
    elif d_h % LANES:
        found.append(f"d_h={d_h} is not a multiple of {LANES}: fused kernels pad or refuse it")
    if d_h > WIDE:
        found.append(f"d_h={d_h} is above {WIDE}: FlashAttention's kernels refuse it")
    if layer.H * d_h != layer.d_model and layer.latent is None:
        found.append(
            f"H·d_h={layer.H * d_h} is not d_model={layer.d_model}: meant in some models "
            "(Gemma-7B, PaLM), elsewhere a slip"
        )
    return found


def _check_size(name: str, size: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"{name}={size!r} is not a size: give an integer, 1 or more")

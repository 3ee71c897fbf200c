"""A problem: the sizes, dtype and masking of one attention computation. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from impls.interface.around import Around
from impls.interface.sequence_lengths import check_lengths, read_lengths, write_lengths
from impls.interface.sequence_lengths import range_text as range_text
from impls.interface.sequence_lengths import shorten as shorten
from impls.interface.spellings import full_dtype, whole_number

DTYPES = ("float32", "bfloat16", "float16")
DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
LAYOUTS = ("bhtd", "bthd", "packed")
PASSES = ("forward", "backward", "forward_backward")
SOFTMAX = "softmax"

_SIZES = ("B", "T_q", "T_kv", "H", "H_kv", "d_h", "d_v")
_EXAMPLE = 'try "B=4,T=8192,H=32,H_kv=8,d_h=128,causal"'


@dataclass(frozen=True)
class Problem:
    """One attention computation, as sizes, a dtype, a masking and a layout.

    q (B, H, T_q, d_h), k (B, H_kv, T_kv, d_h), v (B, H_kv, T_kv, d_v) → (B, H, T_q, d_v).

    `H_kv` and `d_v` default to `H` and `d_h`. `causal` is aligned bottom-right. `window` keeps the
    last `window` keys a causal query may see. `layout` says how the inputs lie in memory; the
    logical shape is always (B, H, T, d). `operator` is what weighs the values: softmax(scale·q·kᵀ),
    or another, by name, which is another problem. With `around` a part of a layer is computed, of
    which the sizes here are the core.

    `lengths` makes it a variable-length batch: B sequences of these lengths, T_q the longest,
    which attend each within itself, causal and window too. They lie one after another, without
    padding, in tensors of B = 1 and T = Σ lengths: see `joined`. `lengths_kv` are those of their
    keys where they differ, a decode step for each of several caches say.

    Raises:
        ValueError: a size is negative or not an integer, H is not a multiple of H_kv, or a word
            is not one of those known; the message says what was given and what would do.
    """

    B: int
    T_q: int
    T_kv: int
    H: int
    d_h: int
    H_kv: int = -1
    d_v: int = -1
    dtype: str = "float32"
    causal: bool = False
    window: int | None = None
    layout: str = "bhtd"
    operator: str = SOFTMAX
    around: Around | None = None
    lengths: tuple[int, ...] | None = None
    lengths_kv: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.H_kv == -1:
            object.__setattr__(self, "H_kv", self.H)
        if self.d_v == -1:
            object.__setattr__(self, "d_v", self.d_h)
        if self.lengths_kv == self.lengths:
            object.__setattr__(self, "lengths_kv", None)
        _check_fields(vars(self))
        if self.window is not None and not self.causal:
            raise ValueError("a window needs causal: it keeps the last `window` visible keys")
        if self.layout == "packed" and (
            self.T_q != self.T_kv or self.H_kv != self.H or self.d_v != self.d_h
        ):
            raise ValueError("layout=packed needs T_q = T_kv, H = H_kv and d_v = d_h")

    @classmethod
    def of_lengths(
        cls, lengths: Sequence[int], lengths_kv: Sequence[int] | None = None, **sizes: Any
    ) -> Problem:
        """A variable-length batch of these sequences; `sizes` are the other fields."""
        of_keys = lengths if lengths_kv is None else lengths_kv
        return cls(
            B=len(lengths),
            T_q=max(lengths, default=0),
            T_kv=max(of_keys, default=0),
            lengths=tuple(lengths),
            lengths_kv=tuple(of_keys),
            **sizes,
        )

    @property
    def sequences(self) -> tuple[Problem, ...]:
        """Each sequence of a variable-length batch as a problem of its own; else this one alone."""
        if self.lengths is None:
            return (self,)
        one = self.with_(B=1, T_q=0, T_kv=0, lengths=None, lengths_kv=None)
        pairs = zip(self.lengths, self.lengths_kv or self.lengths, strict=True)
        return tuple(one.with_(T_q=T_q, T_kv=T_kv) for T_q, T_kv in pairs)

    @property
    def joined(self) -> Problem:
        """The problem whose tensors a variable-length batch lies in: B = 1, T = Σ lengths."""
        if self.lengths is None:
            return self
        T_q, T_kv = sum(self.lengths), sum(self.lengths_kv or self.lengths)
        return self.with_(B=1, T_q=T_q, T_kv=T_kv, lengths=None, lengths_kv=None)

    @property
    def filled(self) -> float:
        """The share of real tokens in a batch padded to its longest sequence; 1 without lengths."""
        padded = self.B * self.T_kv
        return 1.0 if self.lengths is None or not padded else self.joined.T_kv / padded

    @property
    def is_empty(self) -> bool:
        """Nothing to compute; such a problem has an answer but is no benchmark."""
        return 0 in (self.B, self.T_q, self.T_kv, self.H, self.d_h, self.d_v)

    @property
    def has_core(self) -> bool:
        """Whether attention itself is computed; some parts of a layer are without it."""
        return self.around is None or self.around.has_core

    @property
    def is_attention(self) -> bool:
        """Whether it is softmax attention and nothing around it."""
        return self.operator == SOFTMAX and self.around is None

    @property
    def scale(self) -> float:
        """The default scale of the scores, 1/sqrt(d_h) (Vaswani et al. 2017, eq. 1)."""
        return 1.0 / math.sqrt(self.d_h) if self.d_h else 1.0

    @property
    def id(self) -> str:
        """A short, stable, ASCII name, shown by pytest; `--problem` reads it back (no `around`)."""
        parts = [*self._length_words(), f"H={self.H}"]
        if self.H_kv != self.H:
            parts.append(f"H_kv={self.H_kv}")
        parts.append(f"d_h={self.d_h}")
        if self.d_v != self.d_h:
            parts.append(f"d_v={self.d_v}")
        parts.append(self.dtype)
        if self.causal:
            parts.append("causal")
        if self.window is not None:
            parts.append(f"window={self.window}")
        if self.layout != "bhtd":
            parts.append(self.layout)
        if self.operator != SOFTMAX:
            parts.append(f"operator={self.operator}")
        if self.around is not None:
            parts += self.around.words
        return ",".join(parts)

    def _length_words(self) -> list[str]:
        """How many sequences of how many tokens, as `parse` reads it."""
        if self.lengths is not None:
            of_keys = [f"lengths_kv={write_lengths(self.lengths_kv)}"] if self.lengths_kv else []
            return [f"lengths={write_lengths(self.lengths)}", *of_keys]
        same_T = self.T_q == self.T_kv
        T = [f"T={self.T_q}"] if same_T else [f"T_q={self.T_q}", f"T_kv={self.T_kv}"]
        return [f"B={self.B}", *T]

    def __str__(self) -> str:
        return self.id

    def with_(self, **changes: Any) -> Problem:
        """The same problem with some fields changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """All fields, for run files; those that came later only where they are not as usual."""
        record = asdict(self)
        if self.operator == SOFTMAX:
            del record["operator"]
        for name in ("around", "lengths", "lengths_kv"):
            if record[name] is None:
                del record[name]
            elif name != "around":
                record[name] = list(record[name])
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Problem:
        """The problem that `to_json` wrote; unknown fields are refused by name."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(record) - known):
            raise ValueError(f"unknown fields of a problem: {', '.join(unknown)}")
        read = dict(record)
        for name, kind in (("around", Around.from_json), ("lengths", tuple), ("lengths_kv", tuple)):
            if read.get(name) is not None:
                read[name] = kind(read[name])
        return cls(**read)

    @classmethod
    def parse(cls, text: str, **defaults: Any) -> Problem:
        """The problem written as "B=4,T=8192,H=32,H_kv=8,d_h=128,causal".

        `T` sets T_q and T_kv. Bare words are a dtype, a layout, `causal` or `full`. B defaults
        to 1; `defaults` fill what the text leaves out. "lengths=100+37+512" stands in place of
        both B and T. "bf16" and "T=4k" (k = 1024) are read too.
        """
        given: dict[str, Any] = {}
        for part in (p.strip() for p in text.split(",")):
            if part:
                _read_part(part, given, text)
        if "T" in given:
            T = given.pop("T")
            if "T_q" in given and "T_kv" in given:
                raise ValueError(f'"{text}" gives T beside both T_q and T_kv')
            given.setdefault("T_q", T)
            given.setdefault("T_kv", T)
        merged: dict[str, Any] = {"B": 1} | _sizes_of_lengths(given) | defaults | given
        # What is wrong stands in the text, what is missing does not: the wrong is told first.
        _check_fields(merged)
        if missing := [n for n in ("T_q", "T_kv", "H", "d_h") if n not in merged]:
            raise ValueError(f'"{text}" does not give {", ".join(missing)}: {_EXAMPLE}')
        return cls(**merged)


def _sizes_of_lengths(given: Mapping[str, Any]) -> dict[str, int]:
    """B and T of the lengths that are given; nothing without."""
    lengths = given.get("lengths")
    if lengths is None:
        return {}
    of_keys = given.get("lengths_kv", lengths)
    return {
        "B": len(lengths),
        "T_q": max(lengths, default=0),
        "T_kv": max(of_keys, default=0),
    }


def _read_part(part: str, given: dict[str, Any], text: str) -> None:
    """Put one `name=value` or bare word of a written problem into `given`."""
    name, has_value, value = (s.strip() for s in part.partition("="))
    if not has_value:
        words = {"causal": ("causal", True), "full": ("causal", False)}
        words |= {w: ("dtype", w) for w in (*DTYPES, "float64")}
        words |= {w: ("layout", w) for w in LAYOUTS}
        if (word := full_dtype(part)) not in words:
            raise ValueError(f'"{part}" in "{text}" is not a word of a problem: {_EXAMPLE}')
        name, read = words[word]
    elif name in ("dtype", "layout", "operator"):
        read = full_dtype(value) if name == "dtype" else value
    elif name in ("lengths", "lengths_kv"):
        read = read_lengths(value)
    elif name == "causal":
        if value.lower() not in ("0", "1", "true", "false"):
            raise ValueError(f'causal={value} in "{text}": write "causal" or "full"')
        read = value.lower() in ("1", "true")
    elif name in ("T", "window", *_SIZES):
        read = whole_number(value)
        if read is None:
            least = 1 if name == "window" else 0
            raise ValueError(
                f'{name}={value} in "{text}" is not a whole number, {least} or more: {_EXAMPLE}'
            )
    else:
        raise ValueError(f'"{name}" in "{text}" is not a field of a problem: {_EXAMPLE}')
    if name in given:
        raise ValueError(f'{name} is given twice in "{text}"')
    given[name] = read


def _check_fields(given: Mapping[str, Any]) -> None:
    """Refuse what is wrong of the fields that are there, whatever the others will be.

    Raises:
        ValueError: as of `Problem`.
    """
    for name in (n for n in _SIZES if n in given):
        size = given[name]
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError(f"{name}={size!r} is not a size: give an integer, 0 or more")
    H, H_kv = given.get("H"), given.get("H_kv")
    if H is not None and H_kv is not None and (H_kv == 0 or H % H_kv):
        raise ValueError(
            f"H={H} is not a multiple of H_kv={H_kv}: each kv head serves H / H_kv query heads"
        )
    if "dtype" in given:
        _one_of("dtype", given["dtype"], (*DTYPES, "float64"))
    if "layout" in given:
        _one_of("layout", given["layout"], LAYOUTS)
    window = given.get("window")
    if window is not None and (
        isinstance(window, bool) or not isinstance(window, int) or window < 1
    ):
        raise ValueError(f"window={window!r} is not a number of keys: give 1 or more")
    check_lengths(given)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known: one of {', '.join(known)}")

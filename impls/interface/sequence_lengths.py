"""The lengths of a batch's sequences: as they are written, checked, and spread. No torch here."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 1_000_000
"""Sequences of a batch: more are a slip, and would fill the memory before anything is said."""
_EXAMPLE = 'write "100+37+512", "8x512+37" or "zipf:16:4096"'


def read_lengths(text: str) -> tuple[int, ...]:
    """The lengths written as "100+37+8x512", eight of 512 at the end, or "zipf:16:4096".

    `zipf:N:TOTAL` is `zipf(N, TOTAL)`; `zipf:N:TOTAL:EXPONENT` has an exponent other than 1.

    >>> read_lengths("100+2x37"), read_lengths("zipf:3:11")
    ((100, 37, 37), (6, 3, 2))

    Raises:
        ValueError: it is not such a text, or of more than a million sequences.
    """
    if spread := re.fullmatch(r"zipf:(\d+):(\d+)(?::(\d+(?:\.\d*)?))?", text.strip()):
        count, total, exponent = spread.groups()
        _check_number(int(count), text)
        return zipf(int(count), int(total), float(exponent or 1.0))
    found: list[int] = []
    for part in text.split("+"):
        written = re.fullmatch(r"(?:(\d+)x)?(\d+)", part.strip())
        if written is None:
            raise ValueError(f"lengths={text}: {part.strip()!r} is no length: {_EXAMPLE}")
        count = int(written[1] or 1)
        _check_number(len(found) + count, text)
        found += count * [int(written[2])]
    return tuple(found)


def _check_number(n_sequences: int, text: str) -> None:
    if n_sequences > _MOST:
        raise ValueError(f"lengths={text}: {n_sequences} sequences, at most {_MOST} are taken")


def write_lengths(lengths: Sequence[int]) -> str:
    """The text that `read_lengths` reads back, equal neighbours counted.

    >>> write_lengths((100, 37, 37))
    '100+2x37'
    """
    runs = ((length, len(list(run))) for length, run in itertools.groupby(lengths))
    return "+".join(f"{count}x{length}" if count > 1 else str(length) for length, count in runs)


def range_text(lengths: Sequence[int]) -> str:
    """The shortest and the longest, for a table: "37…512", or "512" where all are alike."""
    shortest, longest = min(lengths, default=0), max(lengths, default=0)
    return str(longest) if shortest == longest else f"{shortest}…{longest}"


def shorten(problem_id: str) -> str:
    """A problem's id with many lengths as their number and range, to be read, not typed.

    >>> shorten("lengths=606+303+202+152+122+101+87+76,H=4,d_h=64,float32")
    'lengths=8 of 76…606,H=4,d_h=64,float32'
    """

    def short(found: re.Match[str]) -> str:
        lengths = read_lengths(found[2])
        text = f"{len(lengths)} of {range_text(lengths)}"
        return found[1] + (text if len(text) < len(found[2]) else found[2])

    return re.sub(r"\b(lengths(?:_kv)?=)([^,]+)", short, problem_id)


def zipf(count: int, total: int, exponent: float = 1.0) -> tuple[int, ...]:
    """`count` lengths that fall with rank r as 1/r^exponent (Zipf 1949) and sum to `total`.

    Exponent 0 makes them equal. Each is rounded down and the longest get what is left over.

    >>> zipf(4, 100, 0.0), zipf(4, 100)
    ((25, 25, 25, 25), (48, 24, 16, 12))

    Raises:
        ValueError: no sequence, or fewer tokens than sequences.
    """
    if not 0 < count <= total:
        raise ValueError(f"{total} tokens for {count} sequences: give each one token or more")
    weights = [rank**-exponent for rank in range(1, count + 1)]
    all_weights = sum(weights)
    shares = [max(1, int(total * weight / all_weights)) for weight in weights]
    missing = total - sum(shares)
    # Of very steep lengths the shortest were rounded up to 1: the longest gives it.
    shares[0] += min(missing, 0)
    for n in range(missing):
        shares[n % count] += 1
    return tuple(shares)


def check_lengths(given: Mapping[str, Any]) -> None:
    """Refuse lengths that fit neither each other nor the sizes that are given beside them.

    Raises:
        ValueError: the message says what was given and what would do.
    """
    lengths = given.get("lengths")
    of_keys = given.get("lengths_kv")
    if lengths is None:
        if of_keys is not None:
            raise ValueError("lengths_kv without lengths: give both, or lengths alone")
        return
    for name, found in (("lengths", lengths), ("lengths_kv", of_keys)):
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in found or ()):
            raise ValueError(f"{name}={found!r}: give whole numbers, 0 or more")
    if of_keys is not None and len(of_keys) != len(lengths):
        raise ValueError(f"{len(lengths)} lengths and {len(of_keys)} lengths_kv: one of each, each")
    longest, longest_kv = max(lengths, default=0), max(of_keys or lengths, default=0)
    due = {"B": len(lengths), "T_q": longest, "T_kv": longest_kv}
    for name, size in due.items():
        if given.get(name, size) != size:
            raise ValueError(
                f"{name}={given[name]} beside lengths={write_lengths(lengths)}: B is how many "
                f"there are and T the longest, {name}={size}; leave it out"
            )
    if given.get("operator", "softmax") != "softmax":
        raise ValueError(f"operator={given['operator']} has no variable-length batches")
    if given.get("around") is not None:
        raise ValueError("a layer has no variable-length batches: give its core")
    if given.get("layout") == "packed" and of_keys is not None:
        raise ValueError("layout=packed needs lengths_kv = lengths")

"""Lengths as people write them: 4096, 4k, 2M, and the ladder 1k:2M. k is 1024, M is 1024²."""

from __future__ import annotations

import itertools

from impls.interface.spellings import whole_number

_FINE_STEPS = 4


def parse_lengths(text: str) -> list[int]:
    """The one length of "4k", or the doublings from the first to the last of "1k:2M".

    >>> parse_lengths("4k"), parse_lengths("1k:5k")
    ([4096], [1024, 2048, 4096, 5120])

    Raises:
        ValueError: it is not such a text, or the range does not rise.
    """
    low, is_range, high = text.partition(":")
    if not is_range:
        return [_length(low, text)]
    first, last = _length(low, text), _length(high, text)
    if first >= last:
        raise ValueError(f"--T {text} does not rise: write the smaller length first, 1k:2M")
    ladder = [first]
    while 2 * ladder[-1] < last:
        ladder.append(2 * ladder[-1])
    return [*ladder, last]


def finer(lengths: list[int]) -> list[int]:
    """The ladder with three more rungs in each step, for a smooth line."""
    found = {lengths[-1]}
    for low, high in itertools.pairwise(lengths):
        found |= {round(low * (high / low) ** (i / _FINE_STEPS)) for i in range(_FINE_STEPS)}
    return sorted(found)


def _length(part: str, text: str) -> int:
    length = whole_number(part)
    if not length:
        raise ValueError(f"--T {text} is no length: write 4096, 4k or 1k:2M (k = 1024)")
    return length


def length_text(T: int) -> str:
    """The length as it is written: 4k for 4096, 2M for 2097152, others in plain digits.

    >>> length_text(4096), length_text(2**21), length_text(1500)
    ('4k', '2M', '1500')
    """
    for letter, step in (("M", 2**20), ("k", 2**10)):
        if T % step == 0:
            return f"{T // step}{letter}"
    return str(T)

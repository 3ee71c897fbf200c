"""Numbers as people read them: a unit is chosen once for what stands together, SI prefixes only."""

from __future__ import annotations

import math
from collections.abc import Iterable

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def time_unit(times_s: Iterable[float | None]) -> tuple[float, str]:
    """One unit for a whole column of times: the median has 1 to 999 of it.

    Returns the seconds in one unit, and its name.

    >>> time_unit([0.0015, 2.1, None, 0.04])
    (0.001, 'ms')
    """
    known = sorted(t for t in times_s if t)
    middle = known[len(known) // 2] if known else 1.0
    return next((unit for unit in _SECONDS if middle >= unit[0]), _SECONDS[-1])


def time_text(time_s: float) -> str:
    """A time with three digits in a unit of its own, for a sentence.

    >>> time_text(0.00615), time_text(2.1)
    ('6.15 ms', '2.10 s')
    """
    seconds, name = time_unit([time_s])
    return f"{digits(time_s / seconds)} {name}"


def si_text(value: float, unit: str) -> str:
    """A value with three digits and an SI prefix.

    >>> si_text(107.2e9, "FLOP/s"), si_text(1342177280, "B")
    ('107 GFLOP/s', '1.34 GB')
    """
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * 0.9995:
            return f"{digits(value / factor)} {prefix}{unit}"
    return f"{digits(value)} {unit}"


def counted(n: int, word: str, many: str | None = None) -> str:
    """So many of something: `many`, or the word with an s, where they are not one.

    >>> counted(1, "cell"), counted(0, "launch", "launches")
    ('1 cell', '0 launches')
    """
    return f"{n} {word if n == 1 else many or word + 's'}"


def digits(value: float, n: int = 3) -> str:
    """A number with `n` digits and no exponent.

    >>> digits(6.149), digits(61.49), digits(614.9), digits(6149.0), digits(0.06149)
    ('6.15', '61.5', '615', '6149', '0.0615')
    """
    if value == 0:
        return "0"
    before = math.floor(math.log10(abs(value))) + 1
    return f"{value:.{max(0, n - before)}f}"

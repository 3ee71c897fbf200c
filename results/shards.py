"""Which shards of a sweep there are, as the headers of their runs say it: "2/5"."""

from __future__ import annotations

from collections.abc import Sequence

from results.run import Run

# No sweep has so many problems that it could be cut into more parts.
_DIGITS = 6


def missing(runs: Sequence[Run]) -> list[str]:
    """The shards that the others tell of and that are not there, "3/5".

    Raises:
        ValueError: they are parts of different numbers of shards, or a text is no shard.
    """
    told = {shard for run in runs for shard in _shards_of(run)}
    counts = {count for _, count in told}
    if len(counts) > 1:
        several = " and ".join(str(count) for count in sorted(counts))
        raise ValueError(f"shards of {several}: one sweep is cut into one number of them")
    return [
        f"{number}/{count}"
        for count in counts
        for number in range(1, count + 1)
        if (number, count) not in told
    ]


def told_shards(runs: Sequence[Run]) -> str | None:
    """The shards that are there, "1/5, 2/5"; None where no run is a shard."""
    told = sorted({shard for run in runs for shard in _shards_of(run)})
    return ", ".join(f"{number}/{count}" for number, count in told) or None


def _shards_of(run: Run) -> list[tuple[int, int]]:
    """Its shard; of a merged run that lacks some, those it has."""
    found = []
    for text in (run.header.shard or "").split(", "):
        number, _, count = text.partition("/")
        is_number = number.isdecimal() and count.isdecimal() and len(count) <= _DIGITS
        if is_number and 1 <= int(number) <= int(count):
            found.append((int(number), int(count)))
        elif text:
            raise ValueError(f'{run.path}: shard "{text}" is none: expected one such as "2/5"')
    return found

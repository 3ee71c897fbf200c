"""A part of a sweep, as it is asked for: "2/5"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """Part `number`, from 1, of `count`."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard "2/5".

        Raises:
            ValueError: another text, or a number that is not from 1 to the count.
        """
        number, _, count = text.partition("/")
        is_number = all(part.isascii() and part.isdecimal() for part in (number, count))
        if not (is_number and 1 <= int(number) <= int(count)):
            raise ValueError(f"--shard {text}: give a part and how many there are, 1/5 to 5/5")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, turn: int) -> bool:
        """Whether it is this part's turn, from 0, where the parts are dealt to, to and fro."""
        place = turn % (2 * self.count)
        return min(place, 2 * self.count - 1 - place) == self.number - 1

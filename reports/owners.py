"""Whose a part of a drawing is: ids by which a page hides an implementation, part by part."""

from __future__ import annotations

from urllib.parse import quote

_END = ";"  # what numbers a repeated id comes after it


def written(implementation: str) -> str:
    """The name as it stands in an id, whatever characters it is made of.

    >>> written('a "b"-2')
    'a%20%22b%22-2'
    """
    return quote(implementation, safe="")


def part_of(implementation: str, part: str = "part") -> str:
    """The id of a line, a label or a bar that belongs to one implementation.

    >>> part_of("naive", "label")
    'label-of-naive;'
    """
    return f"{part}-of-{written(implementation)}{_END}"


def owner_pattern(figure: str) -> str:
    """A regular expression of such an id in a figure's SVG; its group is the name as written."""
    return rf"{figure}-[a-z]+-of-([^\"]*){_END}(?:-\d+)?"

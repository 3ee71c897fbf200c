"""What the doctor found: a subject, what is so, and what to type where it is wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("problem", "note", "ok")


@dataclass(frozen=True)
class Finding:
    """One sentence on one subject.

    Attributes:
        level: "problem": times cannot be believed, or something asked for does not work; "note":
            worth knowing; "ok".
        subject: a word or two.
        told: what is so, with the values that were read.
        todo: what to type, or to do; None where nothing is to be done.
    """

    level: str
    subject: str
    told: str
    todo: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As `doctor --json` lists it."""
        return asdict(self)


def ok(subject: str, told: str) -> Finding:
    """All is well."""
    return Finding("ok", subject, told)


def note(subject: str, told: str, todo: str | None = None) -> Finding:
    """Worth knowing, and no reason to distrust a time."""
    return Finding("note", subject, told, todo)


def problem(subject: str, told: str, todo: str) -> Finding:
    """To be mended before a time is believed."""
    return Finding("problem", subject, told, todo)

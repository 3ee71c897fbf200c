"""The stages of a comparison: rehearsed, screened, confirmed and told."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suites.ab import judging, manifest
from suites.ab.launches import Launches, clock, say
from suites.ab.manifest import Manifest
from suites.ab.schedule import SIDES
from suites.supervisor.stopping import Stopping

NOT_COMPARABLE = 4
LEAST_TO_CONFIRM = 10
"""Ten launches a side show a change in any of a thousand cells; fewer are hardly worth the wait."""
OF_ENVIRONMENTS = ("torch", "triton", "cuda", "ptxas", "python_minor")
"""What two environments are expected to differ in, and are compared for."""


class Stages:
    """One comparison on its way; what is done stays done when it is begun again."""

    def __init__(
        self, settled: Manifest, folder: Path, stopping: Stopping, child: Sequence[str]
    ) -> None:
        """`child` is what the interpreter of a side is given before the arguments of a child."""
        self.manifest, self._folder, self._stopping = settled, folder, stopping
        self._launches = Launches(settled, folder, stopping, child)
        self._began = time.monotonic()

    def run(self) -> int:
        """Go through all that is left → the exit code.

        Raises:
            CannotGoOn, CannotJudge, OSError, ValueError: it cannot be gone on with.
        """
        if not self.manifest.is_rehearsed and (code := self._rehearse()) is not None:
            return code
        self._launches.begin()
        try:
            code = self._stages()
        finally:
            self._launches.finish()
        return self._stopping.exit_code if self._stopping.is_asked else code

    def _rehearse(self) -> int | None:
        """Try both sides; → the exit code where that is the end already."""
        say("each side once, to see what it can and how long it takes")
        start_s, cells_s = self._launches.rehearse()
        if self._stopping.is_asked:
            return self._stopping.exit_code
        rehearsed = [f"rehearsed-{side}" for side in SIDES]
        found = self._asked(rehearsed)
        allow = self._allowed(found)
        if allow:
            found = self._asked(rehearsed, *judging.allowing(allow))
        is_hopeless = found["exit_code"] == NOT_COMPARABLE and not found["compared"]
        # Too few launches are no news, nor is a noisy moment; that there is nothing to time is.
        if is_hopeless or not self._launches.has_timed_both:
            return self._tell(rehearsed, *judging.allowing(allow))
        self._save(start_s=start_s, cells_s=cells_s, allow=allow)
        return None

    def _allowed(self, found: dict[str, Any]) -> tuple[str, ...]:
        """The fields that two environments differ in, and may."""
        if self.manifest.kind != "environments":
            return ()
        fields = [one["field"] for one in found["reasons"] if one["severity"] == "blocking"]
        if not fields or set(fields) - {*OF_ENVIRONMENTS}:
            return ()
        say(f"they differ in {', '.join(fields)}, which is what is compared")
        return tuple(fields)

    def _stages(self) -> int:
        self._announce()
        if not self.manifest.screen:
            self._launches.measure(1, self.manifest.confirm, until=self._until())
            return self._concluded(())
        if self.manifest.suspects is None:
            self._launches.measure(1, self.manifest.screen)
            if self._stopping.is_asked:
                return 0
            found = self._asked(SIDES, "--screen-only")
            faster = () if self.manifest.is_slower_only else found["suspects_faster"]
            self._save(suspects=(*found["suspects"], *faster))
        return self._confirm(self.manifest.suspects or ())

    def _confirm(self, suspects: Sequence[str]) -> int:
        if not suspects:
            say("nothing looks changed: nothing to confirm")
            return self._concluded(("--screen-only",))
        first, wanted = self.manifest.screen + 1, self.manifest.confirm
        each_s = 2 * self._launch_s(suspects)
        left_s = self._left_s()
        due = wanted if left_s is None else min(wanted, int(left_s / each_s))
        names = _counted(suspects)
        if due < min(LEAST_TO_CONFIRM, wanted):
            say(
                f"{names} may have changed, and to confirm takes {clock(wanted * each_s)}, "
                f"longer than the time limit leaves: not confirmed (a longer --time-limit is)"
            )
            return self._concluded(("--screen-only",))
        say(f"{names} may have changed: {due} launches a side, about {clock(due * each_s)}")
        self._launches.measure(first, due, suspects, until=self._until())
        return self._concluded(())

    def _announce(self) -> None:
        screen, confirm = self.manifest.screen, self.manifest.confirm
        cells = self.manifest.cells_s
        each_s = 2 * self._launch_s(cells)
        first = screen or confirm
        most_s = (screen + confirm) * each_s
        limit = self.manifest.time_limit_s
        text = f"{_counted(cells)}, {first} launches a side: about {clock(first * each_s)}"
        if screen:
            text += f"; then {confirm} of what looks changed, in all at most {clock(most_s)}"
        say(text)
        if limit is not None and most_s > limit:
            told = self._unpromised(first * each_s > limit)
            say(f"the time limit is {clock(limit)}: {told}")

    def _unpromised(self, is_none_in_time: bool) -> str:
        """What a time limit that is shorter than the plan leaves open."""
        if not is_none_in_time:
            return "if much looks changed it is confirmed by fewer launches, or not at all"
        if self.manifest.screen:
            return (
                "the first launches alone take longer and are measured all the same; what looks "
                "changed then is not confirmed: inconclusive, and exit code 3 by --strict"
            )
        least = min(LEAST_TO_CONFIRM, self.manifest.confirm)
        return f"that is too short; {least} launches a side are measured all the same"

    def _launch_s(self, names: Iterable[str]) -> float:
        """Seconds of one launch of these cells."""
        start_s = self._launches.start_s or self.manifest.start_s or 0.0
        return start_s + sum(self.manifest.cells_s.get(name, 0.0) for name in names)

    def _left_s(self) -> float | None:
        if self.manifest.time_limit_s is None:
            return None
        return self._began + self.manifest.time_limit_s - time.monotonic()

    def _until(self) -> tuple[float, int] | None:
        """When to stop although launches are due, and how many a side there must be for it."""
        left_s = self._left_s()
        return None if left_s is None else (time.monotonic() + left_s, LEAST_TO_CONFIRM)

    def _concluded(self, more: Sequence[str]) -> int:
        if self._stopping.is_asked:
            return 0
        code = self._tell(SIDES, *more, *judging.allowing(self.manifest.allow))
        self._save(exit_code=code)
        return code

    def _asked(self, sides: Sequence[str], *more: str) -> dict[str, Any]:
        options = (*more, *judging.allowing(self.manifest.allow), *self._implementations())
        return judging.asked(self._folder, sides, self.manifest.gate, *options)

    def _tell(self, sides: Sequence[str], *more: str) -> int:
        options = (*more, *self._implementations())
        return judging.told(self._folder, sides, self.manifest.gate, *options)

    def _implementations(self) -> list[str]:
        """Which implementation a side is, where two are set against each other."""
        if self.manifest.kind != "implementations":
            return []
        names = [self._launches.implementation_of(side) for side in SIDES]
        return ["--impl-base", names[0], "--impl-head", names[1]]

    def _save(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)
        manifest.write(self._folder, self.manifest)


def _counted(cells: Collection[str]) -> str:
    return f"{len(cells)} cell{'s' * (len(cells) != 1)}"

"""The first calls of a brought kernel, in a process of its own: one may end the process it is in.

`python -m impls.interface.first_call SOURCE NAME DEVICE FILE` is that process: it writes FILE when
the call has come back, whatever it gave.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from impls.interface.attention import Implementation
from impls.interface.availability import Inability, inability
from impls.interface.brought import bring, is_brought
from impls.interface.named_object import file_of
from impls.interface.rectangular import rectangular_fault

LIMIT_S = 120.0
_START_S = 60.0
"""Allowed on top: importing torch, and on a GPU its context."""
_ROOT = Path(__file__).resolve().parents[2]
# As faulthandler writes a frame.
_FRAME = re.compile(r'File "(.+)", line (\d+) in ')


def inability_tried_apart(
    implementation: Implementation, device: str, limit_s: float = LIMIT_S
) -> Inability | None:
    """Why it cannot be measured on `device`, a brought one being first called apart.

    Its status is "crashed" where that process died, whatever its exit code, and "timeout" where it
    did not come back within `limit_s`.
    """
    if not is_brought(implementation):
        return inability(implementation, device)
    return _died(implementation, device, limit_s) or inability(implementation, device)


def _died(implementation: Implementation, device: str, limit_s: float) -> Inability | None:
    with tempfile.TemporaryDirectory() as folder:
        came_back = Path(folder) / "came back"
        command = [sys.executable, "-X", "faulthandler", "-m", "impls.interface.first_call"]
        command += [implementation.source, implementation.name, device, str(came_back)]
        # What is found here is found there: the checkout first, then the user's own folders.
        places = os.pathsep.join([str(_ROOT), *filter(None, sys.path)])
        try:
            done = subprocess.run(
                command,
                env=os.environ | {"PYTHONPATH": places},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s + _START_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Inability("timeout", (f"its first call took longer than {limit_s:g} s",))
        if came_back.exists():
            return None
    where = _where(done.stderr, file_of(implementation.source))
    return Inability("crashed", (f"its first call ended the process: {_ended(done)}{where}",))


def _ended(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode >= 0:
        return f"exit code {done.returncode}"
    try:
        return signal.Signals(-done.returncode).name
    except ValueError:
        return f"signal {-done.returncode}"


def _where(stderr: str, file: Path | None) -> str:
    """ " at file:line" of the innermost frame, in the kernel's own file where it has one."""
    frames = _FRAME.findall(stderr)
    inside = [frame for frame in frames if Path(frame[0]) == file]
    chosen = (inside or frames)[:1]
    return f" at {chosen[0][0]}:{chosen[0][1]}" if chosen else ""


def main(arguments: Sequence[str]) -> None:
    """Call it as it will be called here next, and say by a file that the calls came back."""
    source, name, device, came_back = arguments
    brought = bring(source, name)
    if inability(brought, device) is None:
        rectangular_fault(brought, device)
    Path(came_back).touch()


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    # Threads that a kernel left behind must not keep this process.
    os._exit(0)

"""`python -m suites …` whose child processes are forks, which start in milliseconds.

`python -m tests.forked_python ARGUMENT…` is `python -m suites ARGUMENT…`, except that where it or
one of its children starts this Python anew, a fork of a process that has torch imported already
goes on in its place: with our own packages imported afresh, its own arguments, folder, environment,
output, signals and session. Ceilings cost nothing there, and what begins as the variable `BREAK`
says fails.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BREAK = "ATTNBENCH_TEST_BREAK"
OURS = ("impls", "suites", "results", "reports", "tests", "conftest", "__main__")
THIRD_PARTY = (
    *("torch", "torch.utils.flop_counter", "numpy", "psutil", "pytest", "rich.table", "jinja2"),
    *("matplotlib.figure", "matplotlib.backends.backend_svg"),
)
_fork_exec: Any = subprocess._fork_exec  # type: ignore[attr-defined]  # where a process begins


def fork_or_exec(args: Sequence[Any], executables: Any, *rest: Any) -> int:
    """In place of `_posixsubprocess.fork_exec`: the process id of a fork, or of what else it is."""
    words = [os.fsdecode(word) for word in args]
    if words[0] != sys.executable:
        return _fork_exec(args, executables, *rest)
    sys.stdout.flush()
    sys.stderr.flush()
    # A run's journal lets go of its files in a fork; those that are passed on are to stay.
    copies = {descriptor: os.dup(descriptor) for descriptor in rest[1]}
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for descriptor, copy in copies.items():
                os.dup2(copy, descriptor)
            _become(words[1:], *rest)
            code = _run(words[1:])
        except BaseException:  # whatever it is, the fork ends here and tells
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    for copy in copies.values():
        os.close(copy)
    return pid


def _become(
    words: Sequence[str],
    close_fds: bool,
    kept: Sequence[int],
    cwd: str | None,
    env: Sequence[bytes] | None,
    p2cread: int,
    p2cwrite: int,
    c2pread: int,
    c2pwrite: int,
    errread: int,
    errwrite: int,
    errpipe_read: int,
    errpipe_write: int,
    restore_signals: bool,
    start_new_session: bool,
    *rest: Any,
) -> None:
    """What stands between fork and exec in `_posixsubprocess`, and what exec itself does."""
    preexec = next((one for one in rest if callable(one)), None)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for ours, theirs in enumerate((p2cread, c2pwrite, errwrite)):
        if theirs >= 0:
            os.dup2(theirs, ours)
    if cwd is not None:
        os.chdir(cwd)
    if start_new_session:
        os.setsid()
    if preexec is not None:
        preexec()
    if env is not None:
        os.environ.clear()
        for one in env:
            name, _, value = one.partition(b"=")
            os.environb[name] = value
    last = 2
    for descriptor in sorted({*kept} - {errpipe_write, 0, 1, 2}):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def _run(words: Sequence[str]) -> int:
    """As the interpreter runs `-m MODULE …` or `-c PROGRAM …` → its exit code."""
    words = list(words)
    while words[0] not in ("-m", "-c"):
        # Options of the interpreter: none that matters is used with one value of its own but -X.
        del words[: 2 if words[0] == "-X" else 1]
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path.cwd()), *filter(None, places)]
    sys.argv = [words[0], *words[2:]]
    try:
        _forget_ours()
        if words[0] == "-m":
            broken = os.environ.get(BREAK)
            if broken and " ".join(words[1:]).startswith(broken):
                raise RuntimeError(f"{broken} is broken on purpose")
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            exec(words[1], {"__name__": "__main__"})
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _forget_ours() -> None:
    """Import our packages anew: what they keep in variables is of one process."""
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        if name != __name__:
            del sys.modules[name]
    patched = importlib.import_module("tests.suite_process")
    ceilings: Any = importlib.import_module("suites.measure.ceilings")
    ceilings.ceilings_for = lambda *_, **__: patched.ROOFS


def main() -> int:
    """Import what is large, then be `python -m suites` with these arguments."""
    for name in THIRD_PARTY:
        importlib.import_module(name)
    subprocess._fork_exec = fork_or_exec  # type: ignore[attr-defined]  # as above
    # Its pages stay shared with the forks.
    gc.collect()
    gc.freeze()
    return _run(["-m", "suites", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

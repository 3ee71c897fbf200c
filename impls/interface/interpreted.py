"""A conformance run in a child process whose Triton is the interpreter, for want of a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from impls.interface.attention import Implementation
from impls.interface.conformance import Conformance

ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = "TRITON_INTERPRET"


def is_interpreting() -> bool:
    """This process was started with Triton's interpreter in place of its compiler."""
    return os.environ.get(_VARIABLE) == "1"


def needs_interpreter(implementation: Implementation, device: str) -> bool:
    """It is one that is proven in the interpreter, and neither GPU nor interpreter is here."""
    is_ours = implementation.source.startswith("impls/")
    return (
        implementation.proven_in == "interpreter"
        and is_ours
        and device == "cpu"
        and not is_interpreting()
    )


def start(implementation: Implementation) -> subprocess.Popen[str]:
    """`python -m impls check NAME --json` in the interpreter, running beside this process."""
    command = [sys.executable, "-m", "impls", "check", implementation.name]
    return subprocess.Popen(
        [*command, "--json", "--device", "cpu"],
        env=os.environ | {_VARIABLE: "1", "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(
    implementation: Implementation, child: subprocess.Popen[str]
) -> tuple[Conformance | None, list[str]]:
    """What the child found; or None and why the implementation is not available there.

    A child that died or wrote no result is a wrong check: silence proves nothing.
    """
    stdout, stderr = child.communicate()
    try:
        record = json.loads(stdout)
        unavailable = record["unavailable"].get(implementation.name)
        found = [Conformance.from_json(one) for one in record["implementations"]]
    except (ValueError, KeyError, TypeError):
        last = stderr.strip().splitlines()[-1:] or ["nothing on stderr"]
        why = f"the interpreter's process ended with {child.returncode}: {last[0]}"
        where = ("cpu", "the child process", why, "interpreter")
        return Conformance.failed(implementation, *where), []
    if unavailable is not None:
        return None, list(unavailable)
    return found[0], []

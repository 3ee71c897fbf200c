"""Running a file of cases in a process of their own whose Triton is the interpreter."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_interpreted(selection, *files):
    """The cases of `tests/file…` that pytest's `-m selection` keeps → how many passed: all.

    Each process costs seconds of imports before its first case.
    """
    command = [
        *(sys.executable, "-m", "pytest", *(f"tests/{file}" for file in files)),
        *("--noconftest", "-p", "no:cacheprovider", "-q", "--tb=short", "-m", selection),
        # Triton 3.6's interpreter draws it from numpy 2.3 at every loop.
        *("-W", "ignore:Conversion of an array:DeprecationWarning"),
    ]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::(.*)$", child.stdout, re.MULTILINE)
    # A read outside memory kills the child: the top of its stack, on stderr, names the case.
    assert child.returncode == 0, "\n".join(
        [*failed, child.stdout[-6000:], child.stderr[:2000], f"exit status {child.returncode}"]
    )
    passed = re.search(r"(\d+) passed", child.stdout)
    assert passed, child.stdout
    return int(passed.group(1))

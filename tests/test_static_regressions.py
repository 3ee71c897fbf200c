"""A deliberate regression of a kernel turns the gate red with its reason; restoring it, green.

In a copy of the checkout, with the real compiler: minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
# One kernel on one architecture: d_h = 64 and 128.
ONLY = ("--arch", "sm_90", "--kernel", "triton_flash_forward")
BLOCKS = "impls/triton_flash/blocks.py"
KERNEL = "impls/triton_flash/forward.py"
WRAPPED = """

_shipped_blocks = blocks_for


def blocks_for(*arguments):
    from dataclasses import replace

    blocks = _shipped_blocks(*arguments)
    return replace(blocks, {change})
"""


class Checkout:
    """A copy of what compiles and judges, with a store, baselines and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        for package in ("impls", "suites", "results"):
            left_out = shutil.ignore_patterns("__pycache__", "runs", "ceilings", "baselines")
            shutil.copytree(ROOT / package, self.folder / package, ignore=left_out)
        self.environment = os.environ | {
            "TRITON_CACHE_DIR": str(folder / "cache"),
            "ATTNBENCH_STORE": str(folder / "runs"),
        }

    def call(self, *arguments: str) -> tuple[int, str]:
        """Run `python -m …` → its exit code and the last line of its output."""
        done = self.run(*arguments)
        lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
        return done.returncode, lines[-1]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `python -m …` to its end."""
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )

    def gate(self) -> tuple[int, str]:
        """Compile afresh and judge."""
        done = self.run("suites", "static", *ONLY)
        # 1: some default block does not compile, which is for the gate to tell.
        assert done.returncode in (0, 1), done.stderr
        assert "\nrun: " in done.stderr, f"no run was written: {done.stderr[-2000:]}"
        return self.call("results", "gate", "--static")

    def edit(self, file: str, change) -> str:
        """Change the text of a file → what it was."""
        path = self.folder / file
        text = path.read_text()
        path.write_text(change(text))
        assert path.read_text() != text, f"nothing to change in {file}"
        return text


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    copy = Checkout(tmp_path_factory.mktemp("static"))
    assert copy.gate()[0] == 4, "nothing was accepted yet"
    code, last = copy.call("results", "accept", "--static")
    assert (code, last) == (0, "accepted 2 profiles: 2 new")
    return copy


def with_blocks(change: str):
    return lambda text: text + WRAPPED.format(change=change)


def always_masked(text: str) -> str:
    """The loop over full tiles passes IS_MASKED false."""
    assert text.count("BLOCK_KV, False, IS_CAUSAL") == 1
    return text.replace("BLOCK_KV, False, IS_CAUSAL", "BLOCK_KV, True, IS_CAUSAL")


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (BLOCKS, with_blocks("num_warps=blocks.num_warps // 2"), "block num_warps 8 → 4"),
        (BLOCKS, with_blocks("BLOCK_KV=blocks.BLOCK_KV * 2"), "block BLOCK_KV 128 → 256"),
        (KERNEL, always_masked, "the loop without masks has "),
    ],
    ids=["num_warps-halved", "block-doubled", "mask-always-on"],
)
def test_a_regression_is_red_with_its_reason(checkout, file, change, said):
    clean = checkout.edit(file, change)
    try:
        code, last = checkout.gate()
    finally:
        (checkout.folder / file).write_text(clean)
    assert code == 1
    assert last.startswith("FAILED: 2 regressed: triton_flash_forward sm_90 d_h=")
    assert said in last


def test_the_clean_tree_is_green_and_two_cold_compilations_agree(checkout):
    """Whatever was changed and put back before: every figure is as it was accepted."""
    shutil.rmtree(checkout.environment["TRITON_CACHE_DIR"])
    assert checkout.gate() == (0, "PASSED: 2 unchanged")

"""The README says what is so: its options, its files, and the kernel it tells to bring."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from impls.interface.brought import bring
from impls.naive import forward
from results.schema import FLAGS
from suites.session import options

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Recorder:
    """Stands in for pytest's parser and remembers the flags."""

    def __init__(self) -> None:
        self.flags: set[str] = set()

    def getgroup(self, *_: str) -> Recorder:
        return self

    def addoption(self, flag: str, **_: Any) -> None:
        self.flags.add(flag)


def test_the_table_of_options_is_the_parsers():
    recorder = Recorder()
    options.add(recorder)
    assert set(re.findall(r"^\| `(--[a-z-]+)", README, re.MULTILINE)) == recorder.flags


def test_files_linked_from_the_documents_exist():
    for document in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).is_file(), f"{document} links to {target}"


def test_every_flag_of_a_row_is_explained():
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)) == set(FLAGS)
    assert [flag for flag in FLAGS if f"`{flag}`" not in README] == []


def test_make_targets_named_in_the_documents_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
        assert named
        assert named <= targets, document


@pytest.mark.parametrize("H_kv", [1, 2, 4])
def test_the_kernel_to_bring_is_attention(tmp_path: Path, monkeypatch: Any, H_kv: int):
    found = re.search(r"cat > (mykernel\.py) <<'EOF'\n(.*?)^EOF$", README, re.DOTALL | re.MULTILINE)
    assert found
    (tmp_path / found[1]).write_text(found[2], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    told = re.search(r"suites --impl (\S+)", README)
    assert told
    attention = bring(told[1]).forward
    generator = torch.Generator().manual_seed(63)
    q, k, v = (torch.randn(2, h, 63, 40, generator=generator) for h in (4, H_kv, H_kv))
    torch.testing.assert_close(attention(q, k, v), forward(q, k, v), atol=1e-5, rtol=1e-5)

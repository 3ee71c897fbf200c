"""GPUs as a user names them, `cuda:1` or by UUID, and what makes each the only one to be seen."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

VARIABLE = "CUDA_VISIBLE_DEVICES"
_LISTED = re.compile(r"^(\s*)(?:GPU|MIG) .*\(UUID: ((?:GPU|MIG)-[\w/-]+)\)")
_NAME = re.compile(r"cuda:\d+|(GPU|MIG)-[\w/-]+")


@dataclass(frozen=True)
class Gpu:
    """One device: as it was typed, and the value of CUDA_VISIBLE_DEVICES that shows it alone."""

    name: str
    visible: str


def is_named(text: str) -> bool:
    """Whether `--device` has names of single GPUs: not "auto", "cpu" or "cuda"."""
    return any(_NAME.fullmatch(word.strip()) for word in text.split(","))


def gpus(text: str) -> list[Gpu]:
    """The GPUs of "cuda:0,cuda:1", "GPU-5c89…" or "MIG-a1b2…".

    `cuda:1` is the second of CUDA_VISIBLE_DEVICES where that is set, else of `nvidia-smi -L`, where
    a GPU that is split by MIG counts as its parts. A UUID may be cut short.

    Raises:
        ValueError: a name is none, there is no such GPU, it is there twice, or it is split.
    """
    words = [word.strip() for word in text.split(",")]
    seen, split = _visible()
    found = [Gpu(word, _value(word, seen, split)) for word in words]
    values = [gpu.visible for gpu in found]
    if twice := [gpu.name for gpu in found if values.count(gpu.visible) > 1]:
        raise ValueError(f"--device {text}: {' and '.join(twice)} are one GPU")
    return found


def _value(word: str, seen: Sequence[str] | None, split: Sequence[str]) -> str:
    if not _NAME.fullmatch(word):
        raise ValueError(f'--device {word}: name GPUs as "cuda:0,cuda:1", or by their UUIDs')
    if not word.startswith("cuda:"):
        if any(uuid.startswith(word) for uuid in split):
            parts = ", ".join(uuid for uuid in seen or () if uuid.startswith("MIG-"))
            raise ValueError(f"--device {word} is split by MIG: name parts of it, {parts}")
        if seen is None:
            return word
        having = [one for one in seen if one.startswith(word)]
        if len(having) != 1:
            raise ValueError(f"--device {word}: {_told(seen)}")
        return having[0]
    number = int(word.removeprefix("cuda:"))
    if seen is None:
        # "cuda:01" is the GPU of "cuda:1".
        return str(number)
    if number >= len(seen):
        raise ValueError(f"--device {word}: {_told(seen)}")
    return seen[number]


def _told(seen: Sequence[str]) -> str:
    where = f"{VARIABLE}={os.environ[VARIABLE]}" if VARIABLE in os.environ else "nvidia-smi -L"
    names = ", ".join(f"cuda:{n} is {one}" for n, one in enumerate(seen)) or "no GPU"
    return f"{where} has {names}"


def _visible() -> tuple[list[str] | None, list[str]]:
    """Values for each GPU that may be used, None where nobody tells; and those split by MIG."""
    listed, split = _of_nvidia_smi()
    if VARIABLE not in os.environ:
        return listed, split
    given = [one.strip() for one in os.environ[VARIABLE].split(",")]
    # As CUDA reads it: what follows an invalid entry is not seen.
    valid = next((n for n, one in enumerate(given) if one in ("", "-1")), len(given))
    return given[:valid], split


def _of_nvidia_smi() -> tuple[list[str] | None, list[str]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None, []
    try:
        done = subprocess.run(
            [program, "-L"], capture_output=True, text=True, errors="replace", timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, []
    if done.returncode != 0:
        return None, []
    whole: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if told := _LISTED.match(line):
            indent, uuid = told.groups()
            if indent and whole:
                whole[next(reversed(whole))].append(uuid)
            else:
                whole[uuid] = []
    seen = [one for uuid, parts in whole.items() for one in parts or [uuid]]
    return seen, [uuid for uuid, parts in whole.items() if parts]

"""What every adapter of a kernel that needs a GPU says of itself: missing, refused, its limits."""

from __future__ import annotations

import importlib.metadata
import io

import pytest
import torch
from rich.console import Console

from impls import (
    flash_attention_2,
    flash_attention_3,
    flash_attention_4,
    flashinfer_attention,
    sage_attention,
    transformer_engine_attention,
)
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.availability import availability
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.interface.tables import print_implementations
from tests import foreign_libraries as libraries
from tests.foreign_cases import on_a_device
from tests.foreign_flashinfer import flashinfer
from tests.foreign_libraries import on_a_cpu
from tests.foreign_sageattention import sageattention
from tests.foreign_transformer_engine import transformer_engine

KERNELS = [
    flash_attention_2.KERNEL,
    flash_attention_3.KERNEL,
    flash_attention_4.KERNEL,
    flash_attention_2.DETERMINISTIC,
    flashinfer_attention.PREFILL,
    flashinfer_attention.PAGED,
    flashinfer_attention.DECODE,
    transformer_engine_attention.KERNEL,
    sage_attention.KERNEL,
]


STAND_INS = [
    libraries.flash_attn_2,
    libraries.flash_attn_3,
    libraries.flash_attn_4,
    libraries.flash_attn_2,
    *(flashinfer,) * 3,
    transformer_engine,
    sageattention,
]


@pytest.mark.parametrize(
    ("kernel", "library"),
    list(zip(KERNELS, STAND_INS, strict=True)),
    ids=[kernel.name for kernel in KERNELS],
)
def test_where_its_library_works_a_kernel_is_available(kernel, library, monkeypatch):
    monkeypatch.setattr(flashinfer_attention, "_WORKSPACE_BYTES", 4096)
    for variable in transformer_engine_attention.PINNED:
        monkeypatch.setenv(variable, "1")
    mine = on_a_cpu(kernel)
    library(monkeypatch)
    assert availability(mine, "cpu") == []


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_library_that_is_missing_or_old_is_a_reason_with_what_to_type(kernel, monkeypatch):
    implementation = implementations()[kernel.name]
    assert implementation.unavailable is not None
    versions: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    missing = f"{kernel.library} is not installed: {kernel.install}"
    assert implementation.unavailable("cuda") == [missing]
    # What would not help there is not told there.
    assert availability(implementation, "cpu") == ["does not run on cpu (only cuda)"]
    versions[kernel.library] = "0.1.9rc1"
    wanted = ".".join(map(str, kernel.at_least))
    old = f"{kernel.library} 0.1.9rc1 is older than {wanted}: {kernel.install}"
    assert implementation.unavailable("cuda") == [old]
    versions[kernel.library] = f"{wanted}.post1"
    assert implementation.unavailable("cuda") == []


def test_what_to_type_is_told_whole_in_a_narrow_table():
    for kernel in KERNELS:
        written = io.StringIO()
        missing = f"{kernel.library} is not installed: {kernel.install}"
        version = f"{kernel.library} not installed"
        rows = [(kernel.implementation(), version, ["does not run on cpu (only cuda)", missing])]
        print_implementations(Console(file=written, width=70), rows, "cpu")
        assert "".join(missing.split()) in "".join(written.getvalue().split())


@pytest.mark.parametrize(
    ("kernel", "version"),
    [
        # Causal was aligned to the top left before 2.1.
        (flash_attention_2.KERNEL, "2.0.9"),
        # It writes into k, and is what PyPI has.
        (sage_attention.KERNEL, "1.0.6"),
        (transformer_engine_attention.KERNEL, "1.14.0+cu12"),
        (flashinfer_attention.DECODE, "0.1.6"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_versions_of_other_conventions_are_not_called(kernel, version, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    unavailable = kernel.implementation().unavailable
    assert unavailable is not None
    (reason,) = unavailable("cuda")
    assert reason.startswith(f"{kernel.library} {version} is older than ")


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_a_kernel_cannot_do_is_refused_before_its_library_is_imported(kernel):
    k = torch.ones(1, 2, 16, 64, dtype=torch.float16)
    q = k[:, :, :1]
    with pytest.raises(Unsupported, match="does not run on cpu"):
        attend(kernel.implementation(), q, k, k)
    mine = on_a_cpu(kernel)
    with pytest.raises(Unsupported, match="mask is not supported"):
        attend(mine, q, k, k, mask=torch.ones(1, 16, dtype=torch.bool))
    with pytest.raises(Unsupported, match="dtype float32 is not supported"):
        attend(mine, q.float(), k.float(), k.float())
    for scale in (0.0, -0.2):
        with pytest.raises(Unsupported, match=f"scale={scale} is not above 0"):
            attend(mine, q, k, k, scale=scale)
    out, _ = attend(mine, q[:0], k[:0], k[:0])
    assert out.shape == (0, 2, 1, 64)


@pytest.mark.parametrize(
    ("kernel", "capability", "text", "needs", "reasons"),
    [
        (flash_attention_2.KERNEL, (8, 0), "B=1,T=9,H=4,H_kv=1,d_h=40,causal,bfloat16", (), []),
        (flash_attention_2.KERNEL, (12, 0), "T_q=1,T_kv=9,H=4,d_h=256,float16", ("softcap",), []),
        (
            flash_attention_2.KERNEL,
            (7, 5),
            "T=9,H=4,d_h=264,d_v=64,bfloat16",
            ("mask", "backward"),
            [
                "d_h=264 is above 256",
                "d_v=64 differs from d_h=264",
                "mask is not supported",
                "needs compute capability 8.0, this device has 7.5",
            ],
        ),
        (flash_attention_3.KERNEL, (9, 0), "T=9,H=4,H_kv=2,d_h=192,d_v=128,float16", (), []),
        (flash_attention_3.KERNEL, (9, 0), "T=9,H=4,d_h=64,d_v=512,float16", ("backward",), []),
        (
            flash_attention_3.KERNEL,
            (10, 0),
            "T=9,H=4,d_h=260,d_v=128,float16",
            (),
            [
                "needs compute capability 9.0, this device has 10.0",
                "d_h=260 is not a multiple of 8",
                "d_h=260 is above 256",
                "d_v=128 with d_h=260: where they differ, d_h is 129 to 192 with d_v 97 to 128, "
                "or d_h to 64 with d_v to 512",
            ],
        ),
        (flashinfer_attention.PREFILL, (9, 0), "T=9,H=6,d_h=192,d_v=128,bfloat16", (), []),
        (flashinfer_attention.DECODE, (7, 5), "T_q=1,T_kv=32,H=8,d_h=256,float16", ("lse",), []),
        (
            flashinfer_attention.PREFILL,
            (7, 5),
            "T=9,H=6,d_h=80,bfloat16",
            ("backward",),
            [
                "backward is not supported",
                "needs compute capability 8.0 for bfloat16, this device has 7.5",
                "d_h=80, d_v=80: one of 64, 128, 256 for both, or 192 with d_v=128",
            ],
        ),
        (
            flashinfer_attention.DECODE,
            (9, 0),
            "T_q=2,T_kv=33,H=8,d_h=192,d_v=128,float16",
            (),
            [
                "d_h=192, d_v=128: one of 64, 128, 256 for both",
                "T_kv=33 is not a multiple of a page's 16 tokens",
                "T_q=2: a decode step only",
            ],
        ),
        (
            transformer_engine_attention.KERNEL,
            (7, 0),
            "T=9,H=4,d_h=264,d_v=12,float16",
            ("lse", "softcap"),
            [
                "d_h=264 is above 256",
                "lse is not supported",
                "softcap is not supported",
                "needs compute capability 8.0, this device has 7.0",
                "d_v=12 is not a multiple of 8",
            ],
        ),
        (sage_attention.KERNEL, (9, 0), "T_q=1,T_kv=9,H=4,d_h=40,causal,float16", ("lse",), []),
        (
            sage_attention.KERNEL,
            (10, 0),
            "T_q=2,T_kv=9,H=4,H_kv=2,d_h=192,causal,window=3,float16",
            ("lse", "backward"),
            [
                "d_h=192 is above 128",
                "a sliding window is not supported",
                "backward is not supported",
                "needs compute capability 8.0, 8.6, 8.9, 9.0, 12.0, this device has 10.0",
                "causal with T_q=2 and T_kv=9: only T_q = T_kv, or one query",
                "lse with H=4 and H_kv=2: only one kv head, or H",
            ],
        ),
        (flash_attention_4.KERNEL, (9, 0), "T=9,H=4,d_h=256,d_v=64,float16", ("backward",), []),
        (flash_attention_4.KERNEL, (10, 0), "T=9,H=4,d_h=192,d_v=128,float16", (), []),
        (
            flash_attention_4.KERNEL,
            (10, 0),
            "T=9,H=4,d_h=256,float16",
            ("backward", "softcap"),
            ["softcap with a backward is not supported at d_h=256"],
        ),
        (
            flash_attention_4.KERNEL,
            (10, 0),
            "T=9,H=4,d_h=192,float16",
            (),
            ["d_h=192 with d_v=192: above 128 only 192 with 128, and 256 with 256"],
        ),
        (
            flash_attention_4.KERNEL,
            (7, 0),
            "T=9,H=4,d_h=257,float16",
            (),
            [
                "needs compute capability 8.0 to 12.x, this device has 7.0",
                "d_h=257 is not a multiple of 8",
                "d_h=257 is above 256",
            ],
        ),
    ],
)
def test_limits_are_told_by_device_and_problem(
    kernel, capability, text, needs, reasons, monkeypatch
):
    on_a_device(monkeypatch, capability)
    found = reasons_against(kernel.implementation(), Problem.parse(text), "cuda", needs)
    assert found == reasons

"""Adapters of kernels that need a GPU, proven through stand-ins with the libraries' conventions.

The stand-ins (`tests.foreign_libraries`) compute in float64 what the libraries document; the
checks are those of `python -m impls check`. On a GPU that command proves the libraries themselves.
"""

from __future__ import annotations

import importlib.metadata
import math

import pytest
import torch

from impls import flash_attention_2, flash_attention_3, flash_attention_4
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.conformance_cases import ASKS, Case
from impls.interface.conformance_trial import Outcome, Trial
from impls.interface.problem import Problem
from impls.interface.ran import fell_back
from impls.interface.registry import implementations
from tests import foreign_libraries as libraries
from tests.foreign_libraries import on_a_cpu

HALF = {"dtype": "float16"}
FULL = Case("full, grouped", Problem.parse("B=2,T=33,H=4,H_kv=2,d_h=64", **HALF))
APPENDED = Case(
    "causal, T_q < T_kv", Problem.parse("B=2,T_q=17,T_kv=48,H=4,H_kv=1,d_h=64,causal,bthd", **HALF)
)
BLIND = Case("causal, T_q > T_kv", Problem.parse("T_q=48,T_kv=16,H=2,d_h=64,causal", **HALF))
WINDOW = Case("window", Problem.parse("T=65,H=2,d_h=64,causal,window=17,bfloat16"))
APPENDED_WINDOW = Case(
    "window, T_q < T_kv", Problem.parse("T_q=5,T_kv=64,H=2,d_h=64,causal,window=3", **HALF)
)
PACKED = Case("packed", Problem.parse("B=2,T=16,H=3,d_h=40,packed,causal", **HALF))
DECODE = Case("decode", Problem.parse("B=2,T_q=1,T_kv=64,H=8,H_kv=2,d_h=128,causal,bfloat16"))
PLAIN = Problem.parse("B=2,T=16,H=2,d_h=64", **HALF)
SCALED = Case("scale", PLAIN, scale=0.03)
CAPPED = Case("softcap", PLAIN, "large logits", softcap=20.0)
STRIDED = Case("strides", PLAIN, "every second element")
MATRIX = [FULL, APPENDED, BLIND, WINDOW, APPENDED_WINDOW, PACKED, DECODE, SCALED, CAPPED, STRIDED]


def outcomes(implementation, matrix=MATRIX) -> dict[tuple[str, str], Outcome]:
    """Every check of the matrix by (subject, ask)."""
    trial = Trial(implementation, "cpu", "device")
    return {(case.subject, ask): trial.outcome(case, ask) for case in matrix for ask in case.asks}


def passes_all_but(implementation, *unsupported: tuple[str, str]) -> None:
    """Every check passed but these, which it says it does not support."""
    found = outcomes(implementation)
    assert not {of: o.reasons for of, o in found.items() if o.status == "wrong"}
    assert {of for of, o in found.items() if o.status == "unsupported"} == set(unsupported)


def wrong(implementation, *matrix: Case) -> set[tuple[str, str]]:
    return {of for of, o in outcomes(implementation, matrix).items() if o.status == "wrong"}


def on_a_device(monkeypatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)


STRIDED_ASKS = [("strides", ask) for ask in ASKS]


FLASH = [
    (libraries.flash_attn_2, flash_attention_2.KERNEL),
    (libraries.flash_attn_3, flash_attention_3.KERNEL),
    (libraries.flash_attn_4, flash_attention_4.KERNEL),
]
each_flash = pytest.mark.parametrize(
    ("library", "kernel"), FLASH, ids=[kernel.name for _, kernel in FLASH]
)


@each_flash
def test_flash_attn_is_handed_what_gives_the_float64_result(library, kernel, monkeypatch):
    library(monkeypatch)
    passes_all_but(on_a_cpu(kernel), *STRIDED_ASKS)


@each_flash
def test_another_convention_of_flash_attn_is_told_wrong(library, kernel, monkeypatch):
    habits = library(monkeypatch)
    mine = on_a_cpu(kernel)
    habits.bottom_right = False
    told = outcomes(mine, [APPENDED])["causal, T_q < T_kv", "output"]
    assert "aligned to the top left" in told.reasons[0]
    habits.bottom_right, habits.more_window = True, 1
    assert ("window", "output") in wrong(mine, WINDOW)
    habits.more_window, habits.lse_factor = 0, 1 / math.log(2)
    assert wrong(mine, FULL) == {("full, grouped", "lse")}
    habits.lse_factor, habits.heads_first = 1.0, True
    # 16 tokens of 2 heads read as 2 tokens of 16 heads.
    assert wrong(mine, SCALED) == {("scale", ask) for ask in ASKS}


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (flash_attention_2.KERNEL, "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>"),
        (flash_attention_3.KERNEL, "cutlass::device_kernel<flash::FlashAttnFwdSm90<...>>"),
        (
            flash_attention_4.KERNEL,
            "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object",
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_profile_must_show_the_kernel_of_flash_attn(kernel, name):
    implementation = kernel.implementation()
    assert fell_back(implementation, ["aten::transpose", name]) == []
    elsewhere = "pytorch_sdpa::efficient"
    assert elsewhere in fell_back(implementation, ["aten::transpose", elsewhere])[0]


@pytest.mark.parametrize(
    ("kernel", "module", "parameter"),
    [
        (flash_attention_3.KERNEL, "flash_attn_interface", "return_attn_probs"),
        (flash_attention_4.KERNEL, "flash_attn.cute", "return_lse"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_older_signature_is_refused_with_what_to_type(kernel, module, parameter, monkeypatch):
    def flash_attn_func(q, k, v, softmax_scale=None, causal=False):
        raise AssertionError("it was called")

    modules = {"flash_attn": {}, module: {"flash_attn_func": flash_attn_func}}
    libraries.install(monkeypatch, kernel.library, "9.0", modules)
    q = torch.ones(1, 2, 4, 64, dtype=torch.float16)
    with pytest.raises(Unsupported, match=f"no {parameter}=, it is an older one: pip install"):
        attend(on_a_cpu(kernel), q, q, q)


@pytest.mark.parametrize(
    ("library", "kernel", "capability", "num_splits"),
    [
        (libraries.flash_attn_3, flash_attention_3.KERNEL, (9, 0), 0),
        (libraries.flash_attn_4, flash_attention_4.KERNEL, (9, 0), 1),
        (libraries.flash_attn_4, flash_attention_4.KERNEL, (10, 3), 0),
    ],
)
def test_keys_are_split_as_the_library_chooses_where_it_can(
    library, kernel, capability, num_splits, monkeypatch
):
    on_a_device(monkeypatch, capability)
    habits = library(monkeypatch)
    assert not wrong(on_a_cpu(kernel), DECODE)
    assert {told["num_splits"] for told in habits.told} == {num_splits}


def test_the_deterministic_backward_of_flash_attn_2_is_asked_for_by_its_own_name(monkeypatch):
    habits = libraries.flash_attn_2(monkeypatch)
    for kernel, is_deterministic in (
        (flash_attention_2.KERNEL, False),
        (flash_attention_2.DETERMINISTIC, True),
    ):
        assert not wrong(on_a_cpu(kernel), FULL)
        assert {told["deterministic"] for told in habits.told} == {is_deterministic}
        habits.told.clear()


KERNELS = [*(kernel for _, kernel in FLASH), flash_attention_2.DETERMINISTIC]


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
    assert implementation.unavailable("cpu") == ["does not run on cpu (only cuda)", missing]
    versions[kernel.library] = "0.9.9rc1"
    wanted = ".".join(map(str, kernel.at_least))
    old = f"{kernel.library} 0.9.9rc1 is older than {wanted}: {kernel.install}"
    assert implementation.unavailable("cuda") == [old]
    versions[kernel.library] = f"{wanted}.post1"
    assert implementation.unavailable("cuda") == []


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_a_kernel_cannot_do_is_refused_before_its_library_is_imported(kernel):
    q = torch.ones(1, 2, 4, 64, dtype=torch.float16)
    with pytest.raises(Unsupported, match="does not run on cpu"):
        attend(kernel.implementation(), q, q, q)
    mine = on_a_cpu(kernel)
    with pytest.raises(Unsupported, match="mask is not supported"):
        attend(mine, q, q, q, mask=torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(Unsupported, match="dtype float32 is not supported"):
        attend(mine, q.float(), q.float(), q.float())
    for scale in (0.0, -0.2):
        with pytest.raises(Unsupported, match=f"scale={scale} is not above 0"):
            attend(mine, q, q, q, scale=scale)
    out, _ = attend(mine, q[:, :, :0], q, q)
    assert out.shape == (1, 2, 0, 64)


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

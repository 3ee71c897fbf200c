"""The adapters of flash-attn 2, 3 and 4, through stand-ins with the libraries' conventions.

The stand-ins (`tests.foreign_libraries`) compute in float64 what the libraries document. On a GPU
`python -m impls check` proves the libraries themselves.
"""

from __future__ import annotations

import math

import pytest
import torch

from impls import flash_attention_2, flash_attention_3, flash_attention_4
from impls.interface.attention import Unsupported, attend
from impls.interface.ran import fell_back
from tests import foreign_libraries as libraries
from tests.foreign_cases import (
    APPENDED,
    ASKS,
    DECODE,
    FULL,
    LENGTHS,
    SCALED,
    STRIDED_ASKS,
    WINDOW,
    on_a_device,
    outcomes,
    passes_all_but,
    wrong,
)
from tests.foreign_libraries import on_a_cpu

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
def test_sequences_of_any_lengths_attend_each_within_itself(library, kernel, monkeypatch):
    habits = library(monkeypatch)
    passes_all_but(on_a_cpu(kernel), matrix=LENGTHS)
    habits.bottom_right = False
    decode = LENGTHS[3]
    assert wrong(on_a_cpu(kernel), decode) == {(decode.subject, ask) for ask in decode.asks}


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

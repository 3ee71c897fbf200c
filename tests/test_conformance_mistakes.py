"""A wrong output that is the right answer to another question is told so in a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from impls.__main__ import main
from impls.interface.attention import Capabilities, Implementation
from impls.interface.conformance import conformance
from impls.interface.conformance_cases import cases
from tests.test_conformance import attention, planted

SUBJECTS = ("window", "mask", "scale", "softcap", "causal T_q ≠ T_kv", "grouped heads", "layout")
MATRIX = [case for case in cases() if case.subject in SUBJECTS]
FORWARD = Capabilities(passes=("forward",))
KERNELS = """
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

def causal_by_default(q, k, v, causal=True):
    T_q, T_kv = q.shape[2], k.shape[2]
    mask = torch.ones(T_q, T_kv, dtype=torch.bool).tril(T_kv - T_q) if causal else None
    out = sdpa(q, k, v, attn_mask=mask, enable_gqa=True)
    return out.nan_to_num(0.0) if causal else out

def always_causal(q, k, v, causal=False):
    return causal_by_default(q, k, v)

def never_causal(q, k, v, causal=True):
    return causal_by_default(q, k, v, False)

def under_another_word(q, k, v, is_causal=True):
    return causal_by_default(q, k, v, is_causal)

def top_left(q, k, v, causal=False):
    return sdpa(q, k, v, is_causal=causal, enable_gqa=True)

for kernel in (causal_by_default, always_causal, never_causal, under_another_word, top_left):
    kernel.passes = ("forward",)
    kernel.d_v_may_differ = True
"""
CAUSAL = "it is causal, where full attention was asked"
NOT_CAUSAL = "it is not causal, where causal was asked"
TOP_LEFT = (
    "its causal mask is aligned to the top left; the bottom right is wanted: "
    "query i sees keys j ≤ i + T_kv − T_q"
)


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """`python -m impls check --impl kernels.py:NAME --json` → its exit code and first reasons."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("impls.interface.registry._declared_here", list)
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)
    monkeypatch.setattr("impls.interface.first_call._died", lambda *_: None)
    (tmp_path / "kernels.py").write_text(KERNELS)

    def check(name):
        code = main(["check", "--impl", f"kernels.py:{name}", "--device", "cpu", "--json"])
        (one,) = json.loads(capsys.readouterr().out)["implementations"]
        wrong = [o for o in one["outcomes"] if o["status"] == "wrong"]
        return code, {o["case"].split(": ")[0]: o["reasons"][0] for o in wrong}

    return check


def test_causal_by_default_is_told_what_is_asked_and_is_right(checked):
    assert checked("causal_by_default") == (0, {})


@pytest.mark.parametrize(
    ("name", "sentence", "subject", "right"),
    [
        ("always_causal", CAUSAL, "full T_q ≠ T_kv", "causal T_q ≠ T_kv"),
        ("never_causal", NOT_CAUSAL, "causal T_q ≠ T_kv", "full T_q ≠ T_kv"),
        ("under_another_word", CAUSAL, "full T_q ≠ T_kv", "causal T_q ≠ T_kv"),
        ("top_left", TOP_LEFT, "causal T_q ≠ T_kv", "full T_q ≠ T_kv"),
    ],
)
def test_a_kernel_that_answers_another_question_of_causal_is_wrong_and_told_which(
    checked, name, sentence, subject, right
):
    code, wrong = checked(name)
    assert code == 1 and wrong[subject] == sentence and right not in wrong


def deaf(word):
    """The definition, which does not hear one of its arguments."""

    def forward(q, k, v, **arguments):
        heard = {name: value for name, value in arguments.items() if name != word}
        return attention(q, k, v, **heard)[0]

    return Implementation("deaf", forward, "", FORWARD)


def counting_keys_before(more):
    """FlashAttention's window_size counts the keys before the query's own."""

    def forward(q, k, v, window=None, **arguments):
        window = None if window is None else window + more
        return attention(q, k, v, window=window, **arguments)[0]

    return Implementation("counting", forward, "", FORWARD)


def of_tokens_first():
    """As flash_attn_func takes them, (B, T, H, d), given (B, H, T, d)."""

    def forward(q, k, v, **arguments):
        turned = (tensor.transpose(1, 2) for tensor in (q, k, v))
        return attention(*turned, **arguments)[0].transpose(1, 2)

    return Implementation("tokens first", forward, "", FORWARD)


def inverted(word):
    return planted(FORWARD, **{word: True})


@pytest.mark.parametrize(
    ("implementation", "subject", "sentence"),
    [
        (deaf("window"), "window", "it ignores the window"),
        (deaf("mask"), "mask", "it ignores the mask"),
        (deaf("scale"), "scale", "it ignores the scale"),
        (deaf("softcap"), "softcap", "it ignores the softcap"),
        (counting_keys_before(1), "window", "its window is one key wider than asked"),
        (counting_keys_before(-1), "window", "its window is one key narrower than asked"),
        (of_tokens_first(), "layout", "it takes (B, T, H, d) where (B, H, T, d) is wanted"),
        (inverted("inverted_mask"), "mask", "its mask is inverted; True is wanted where"),
        (inverted("tiled_heads"), "grouped heads", "its query head h reads kv head h % H_kv; "),
    ],
)
def test_the_usual_mistakes_are_told(implementation, subject, sentence):
    """Of windows transformers#39408; of the order of dimensions xformers#932."""
    found = conformance(implementation, "cpu", matrix=MATRIX)
    assert any(
        o.case.startswith(f"{subject}: ") and o.reasons[0].startswith(sentence)
        for o in found.of("wrong")
    )


def test_what_is_merely_wrong_is_called_no_mistake():
    def forward(q, k, v, **arguments):
        return 1.01 * attention(q, k, v, **arguments)[0]

    wrong = conformance(Implementation("off", forward, "", FORWARD), "cpu", matrix=MATRIX)
    told = {o.reasons[0].split(" ")[0] for o in wrong.of("wrong")}
    assert told == {"out:"}


def test_what_is_no_tensor_is_called_no_mistake():
    def pair(q, k, v, **arguments) -> Any:
        return q, torch.zeros(1)

    found = conformance(Implementation("pair", pair, "", FORWARD), "cpu", matrix=MATRIX[:3])
    first = {o.reasons[0] for o in found.of("wrong") if o.ask == "output"}
    assert first == {"out: a tuple where a tensor is due"}

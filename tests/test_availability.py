"""Whether an implementation runs here: decided by one real call, its result not judged."""

import torch

from impls.interface.attention import Capabilities, Implementation
from impls.interface.availability import availability, version_of
from impls.interface.problem import Problem
from impls.naive import naive

TRIED = "(tried with B=1,T=16,H=2,d_h=64,float32)"


def test_availability_is_one_real_call():
    assert availability(naive, "cpu") == []

    def raising(q, k, v, **arguments):
        raise ImportError("libcuda.so.1: cannot open shared object file")

    broken = Implementation("broken", raising, "")
    assert availability(broken, "cpu") == [
        f"ImportError: libcuda.so.1: cannot open shared object file {TRIED}"
    ]


def test_a_wrong_implementation_is_available_so_that_it_is_told_wrong():
    for out in (torch.zeros(1, 2, 16, 64), None, (torch.zeros(1), None), "a word"):
        wrong = Implementation("wrong", lambda q, k, v, out=out, **arguments: out, "")
        assert availability(wrong, "cpu") == []


def test_availability_asks_the_implementation_first():
    def never(q, k, v, **arguments):
        raise AssertionError("it was called")

    absent = Implementation("absent", never, "", unavailable=lambda device: [f"no {device} here"])
    assert availability(absent, "cpu") == ["no cpu here"]
    elsewhere = Implementation("elsewhere", never, "", Capabilities(devices=("cuda",)))
    assert availability(elsewhere, "cpu") == ["does not run on cpu (only cuda)"]


def test_availability_tries_a_problem_the_implementation_can_do():
    def only_bfloat16_causal(q, k, v, causal=False, **arguments):
        assert causal and q.dtype == torch.bfloat16
        return naive.forward(q, k, v, causal=True)

    def further(problem: Problem, device, needs):
        return [] if problem.causal else ["only causal"]

    picky = Implementation(
        "picky", only_bfloat16_causal, "", Capabilities(dtypes=("bfloat16",), further=further)
    )
    assert availability(picky, "cpu") == []


def test_version_names_the_library():
    assert version_of(naive) == f"torch {torch.__version__}"
    absent = Implementation("absent", naive.forward, "", library="no-such-library")
    assert version_of(absent) == "no-such-library not installed"


def test_a_kernel_that_exits_is_told_like_any_other_failure():
    def leaving(q, k, v, **arguments):
        raise SystemExit(0)

    assert availability(Implementation("leaving", leaving, ""), "cpu") == [f"SystemExit: 0 {TRIED}"]


def test_a_kernel_that_is_causal_alone_is_available():
    def causal_alone(q, k, v, *, causal, **arguments):
        assert causal
        return q

    assert availability(Implementation("causal_alone", causal_alone, ""), "cpu") == []

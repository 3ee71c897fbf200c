"""Ray as a fleet's engine where it is not: who listens at its address, and who does no more."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from suites.fleet import ray_engine
from suites.fleet.arguments import FleetOptions
from suites.supervisor.supervisor import CannotGoOn

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("port", [None, 99999])
def test_an_address_where_nobody_listens_is_told_at_once(monkeypatch, port):
    """Ray asks for two minutes, and says so in words of its own."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{port or deaf.getsockname()[1]}"
        options = FleetOptions(address=address)
        with pytest.raises(CannotGoOn, match="no Ray cluster answers") as raised:
            ray_engine.connected(options, ROOT).__enter__()
    assert raised.value.is_usage and address in str(raised.value)


def test_a_cluster_that_refuses_is_told_with_how_tokens_are_turned_on(monkeypatch):
    """Ray 2.60 has a token for a cluster that it starts, and offers it to none by address."""

    def refused(**_):
        raise ConnectionError("Failed to connect to Ray cluster")

    exceptions = SimpleNamespace(RayError=RuntimeError)
    ray = SimpleNamespace(init=refused, shutdown=lambda: None, exceptions=exceptions)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for name in ray_engine._QUIET:
        monkeypatch.setenv(name, os.environ.get(name, "0"))
    with pytest.raises(CannotGoOn, match=r"Failed to connect.*export RAY_AUTH_MODE=token"):
        ray_engine.connected(FleetOptions(address="auto"), ROOT).__enter__()


def test_a_ray_that_is_gone_is_told_and_one_that_answers_again_is_not(monkeypatch):
    """After a minute Ray would end the process with exit code 1, "a wrong result"."""
    monkeypatch.setattr(ray_engine, "LOOK_S", 0.0)
    monkeypatch.setattr(socket, "create_connection", lambda address, limit_s: knock(address))
    answers: list[bool] = []

    def knock(address: tuple[str, int]) -> SimpleNamespace:
        assert address == ("192.0.2.7", 6379)
        if not answers.pop(0):
            raise ConnectionRefusedError("[Errno 111] Connection refused")
        return SimpleNamespace(close=lambda: None)

    context = SimpleNamespace(gcs_address="192.0.2.7:6379")
    ray = SimpleNamespace(nodes=lambda: [], get_runtime_context=lambda: context)
    engine = ray_engine.RayEngine(ray, FleetOptions(), None)
    silence = ray_engine.MOST_SILENCES - 1
    answers += [*[False] * silence, True, *[False] * silence]
    for _ in list(answers):
        assert engine.happened(0.0) == []
    answers.append(False)
    with pytest.raises(CannotGoOn, match=r"192.0.2.7:6379 is gone: .*refused") as raised:
        engine.happened(0.0)
    assert not raised.value.is_usage

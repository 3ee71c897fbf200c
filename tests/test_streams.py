"""What a log's encoding cannot show is a question mark, and never a traceback."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from impls.interface.streams import end, take_any_sign
from tests.suite_process import run_suites

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_sign_that_an_encoding_lacks_is_a_question_mark(encoding, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    take_any_sign()
    print("T_q ≠ T_kv", flush=True)
    assert written.getvalue() == b"T_q ? T_kv\n"


def test_a_stream_that_does_not_know_where_it_stands_is_left_as_it_is(monkeypatch):
    class Inherited(io.TextIOWrapper):
        def reconfigure(self, **_):
            raise OSError(29, "Illegal seek")

    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Inherited(written, encoding="utf-8"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    take_any_sign()
    print("≠", flush=True)
    assert written.getvalue() == "≠\n".encode()


@pytest.mark.parametrize(
    "command",
    ["results gate --help", "impls cost --model llama-2-70b --T 4096"],
)
def test_every_command_writes_in_ascii(command):
    """Of a container or a Windows console, whose encoding is not UTF-8."""
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout and done.stdout.isascii()


INTERRUPTED = """
import os, runpy, signal, sys

# What runs in the background of a shell has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    @staticmethod
    def find_spec(name, *_):
        if name == "argparse":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("package", ["impls", "suites", "results", "reports"])
def test_ctrl_c_while_a_command_is_loaded_is_no_traceback(package):
    code = ["-c", INTERRUPTED, package, "list"]
    done = subprocess.run([sys.executable, *code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"interrupted\n")


def test_what_went_wrong_is_a_traceback_still(capsys):
    try:
        raise ValueError("a fault of ours")
    except ValueError as error:
        end(ValueError, error, error.__traceback__)
    assert "Traceback" in (told := capsys.readouterr().err) and "a fault of ours" in told


@pytest.mark.slow
def test_the_table_of_a_run_stays_a_table_in_ascii(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii:strict")
    sizes = ("--problem", "T=33,H=2,d_h=16", "--benchmark-max-time", "0.02")
    found = run_suites(tmp_path, "--impl", "naive", *sizes)
    assert found.code == 0 and found.output.isascii(), found.output
    rows = [line.split()[:2] for line in found.output.splitlines()]
    assert ["T=33", "naive"] in rows

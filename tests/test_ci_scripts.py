"""docs/ci's scripts, run with a Python that only notes what it is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CI = ROOT / "docs" / "ci"


@pytest.fixture
def python(tmp_path):
    """A Python that notes what it is asked, writes what it is told to, and ends as it is told."""
    fake = tmp_path / "python"
    fake.write_text(
        """#!/usr/bin/env bash
[ -z "${NOTE:-}" ] || [ -z "${PYTHONPATH:-}" ] || echo "PYTHONPATH=$PYTHONPATH" >> "$CALLS"
echo "$@" >> "$CALLS"
ALL=$*
while [ $# -gt 1 ]; do
  case $1 in --markdown | --junit | --metrics) echo "GPU time: not measured" > "$2" ;; esac
  shift
done
[ -z "${SAYS:-}" ] || echo "$SAYS"
case $ALL in *"${ONLY:-}"*) exit "${CODE:-0}" ;; esac
"""
    )
    fake.chmod(0o755)
    return fake


def call(python, script, *arguments, **environment):
    """Run a recipe's script from another folder; → how it ended and what it asked Python."""
    folder = python.parent
    calls, summary = folder / "calls", folder / "summary"
    done = subprocess.run(
        [str(CI / script), *arguments],
        cwd=folder,
        env={
            **{"PATH": os.environ["PATH"], "PY": str(python), "CALLS": str(calls)},
            **{"GITHUB_STEP_SUMMARY": str(summary), **environment},
        },
        capture_output=True,
        text=True,
        check=False,
    )
    told = calls.read_text().splitlines() if calls.exists() else []
    return done, told, summary.read_text() if summary.exists() else ""


def test_the_comment_is_there_whatever_the_verdict_and_that_is_the_code(python):
    build = ("--repo", "kernel", "--build", "pip install -e .", "--impl", "my:f")
    done, told, summary = call(python, "ab.sh", "HEAD^1", "out", *build, CODE="1")
    assert done.returncode == 1, done.stderr
    (asked,) = told
    assert asked.startswith("-P -m suites ab HEAD^1 --slower-only --time-limit 8m ")
    assert asked.endswith(" ".join(build)) and "--github" not in asked
    out = python.parent / "out"
    assert {"comment.md", "junit.xml", "metrics.txt"} <= {path.name for path in out.iterdir()}
    assert summary == "GPU time: not measured\n"


def test_this_checkout_measures_wherever_it_is_typed(python):
    paths = {"TIME_LIMIT": "20m", "NOTE": "PYTHONPATH", "GITHUB_ACTIONS": "true"}
    done, told, _ = call(python, "ab.sh", "main", "out", **paths)
    assert done.returncode == 0, done.stderr
    assert told[0] == f"PYTHONPATH={ROOT}"
    assert "--time-limit 20m" in told[1] and told[1].endswith("--github")


def test_a_kernel_that_does_not_compile_is_left_to_the_gate(python):
    done, told, summary = call(python, "static.sh", CODE="1", SAYS="FAILED: 1 regressed")
    assert done.returncode == 1 and told == ["-m suites static", "-m results gate --static"]
    assert summary == "    FAILED: 1 regressed\n"
    assert call(python, "static.sh", CODE="2")[0].returncode == 2


def test_the_first_failure_of_a_night_is_its_code_and_the_page_is_made(python):
    done, told, _ = call(python, "nightly.sh", "out", "decode", "--impl", "a:f", CODE="1")
    assert done.returncode == 1
    assert [words.split(" --")[0] for words in told] == [
        "-m suites run decode",
        *("-m results gate", "-m results history", "-m reports history"),
    ]
    assert told[0] == "-m suites run decode --impl a:f --launches 20"
    # Wrong usage ends the night before anything is judged.
    again = call(python, "nightly.sh", "out", CODE="2")
    assert again[0].returncode == 2 and len(again[1]) == len(told) + 1


@pytest.fixture
def repository(tmp_path):
    """A repository whose head has one kernel that its base has, and one that it has not."""
    repo = tmp_path / "repo"
    repo.mkdir()

    def git(*words):
        settings = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", "-C", str(repo), *settings, *words], check=True, capture_output=True)

    git("init", "-q")
    (repo / "old.py").write_text("was = 1\n")
    git("add", "old.py")
    git("commit", "-qm", "base")
    (repo / "old.py").write_text("is_now = 2\n")
    (repo / "new.py").write_text("")
    return repo


def test_a_kernel_is_compiled_as_it_was_and_as_it_is(python, repository):
    words = (str(repository), "HEAD", "out", "old.py:f", "--constants", "BLOCK=64")
    done, told, _ = call(python, "static-pair.sh", *words)
    assert done.returncode == 0, done.stderr
    head, base, gate = told
    assert base.endswith("out/base --constants BLOCK=64") and head.endswith("BLOCK=64")
    assert f"--kernel {repository}/old.py:f" in head and str(repository) not in base.split()[4]
    assert gate.startswith("-m results gate --static ")
    status = subprocess.run(
        ["git", "-C", str(repository), "worktree", "list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(status.stdout.splitlines()) == 1


def test_a_new_kernel_passes(python, repository):
    done, told, _ = call(python, "static-pair.sh", str(repository), "HEAD", "out", "new.py:f")
    assert done.returncode == 0 and told == [] and "new in head" in done.stdout


@pytest.mark.parametrize(("code", "ends"), [("1", 0), ("2", 0), ("5", 5)])
def test_a_kernel_that_base_does_not_compile_is_new(python, repository, code, ends):
    words, out = (str(repository), "HEAD", "out", "old.py:f"), python.parent / "out"
    done, told, _ = call(python, "static-pair.sh", *words, ONLY=f"--store {out}/base", CODE=code)
    assert done.returncode == ends, done.stderr
    assert ("results gate" in told[-1]) == (code == "1"), "what compiles for a GPU is compared"
    assert ("base does not compile it" in done.stdout) == (code == "2")
    head = call(python, "static-pair.sh", *words, ONLY=f"--store {out}/head", CODE=code)
    assert head[0].returncode == int(code)


def test_runs_of_another_time_are_not_compared(python, repository):
    for side in ("base", "head"):
        for name, time_s in (("z-old", 1e9), ("a-new", 2e9)):
            run = python.parent / "out" / side / "key" / name
            run.mkdir(parents=True)
            os.utime(run, (time_s, time_s))
    done, told, _ = call(python, "static-pair.sh", str(repository), "HEAD", "out", "old.py:f")
    out = python.parent / "out"
    assert done.returncode == 0, done.stderr
    assert told[-1] == f"-m results gate --static {out}/base/key/a-new {out}/head/key/a-new"

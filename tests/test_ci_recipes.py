"""docs/ci: recipes that parse, whose commands exist, and which give no stranger anything."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CI = ROOT / "docs" / "ci"
SCRIPTS = sorted(CI.glob("*.sh"))
RECIPES = sorted(CI.glob("*.yml"))
OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_OF_SCRIPTS = ("--repo", "--build")
GITHUB = [path for path in [*RECIPES, *OURS] if "gitlab" not in path.name]


def ids(path):
    return path.name


def read(path: Path) -> dict[str, Any]:
    """The YAML; its word `on` would be read as true."""
    text = path.read_text(encoding="utf-8")
    return yaml.safe_load(re.sub(r"^on:", '"on":', text, flags=re.M))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


def shell_of(path: Path) -> str:
    """All that a recipe types, one command a line."""
    if path.suffix == ".sh":
        text = path.read_text(encoding="utf-8")
    elif "gitlab" in path.name:
        text = "\n".join(read(path)["attention"]["script"])
    else:
        text = "\n".join(step["run"] for step in steps(path) if "run" in step)
    return re.sub(r"\\\n\s*", " ", text)


def commands(path: Path) -> list[list[str]]:
    """`python -m …` commands of a recipe: package, command, then words."""
    found = re.findall(r"-m ((?:suites|results|reports|impls) \w+[^\n|;&)]*)", _uncommented(path))
    return [[word for word in shlex.split(text) if word != ">"] for text in found]


def scripts_called(path: Path) -> list[list[str]]:
    """Calls of our scripts: name, then words."""
    text = _uncommented(path)
    found = re.findall(r"^.*?docs/ci/([\w-]+\.sh[^\n|;&]*)", text, flags=re.M)
    return [shlex.split(call) for call in found]


def _uncommented(path: Path) -> str:
    lines = shell_of(path).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def help_of(package: str, command: str, capsys) -> str:
    module = importlib.import_module(f"{package}.__main__")
    with pytest.raises(SystemExit) as ended:
        module.main([command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def options_known(words: list[str], text: str) -> list[str]:
    given = [word.split("=")[0] for word in words if word.startswith("--")]
    return [option for option in given if not re.search(rf"{re.escape(option)}\b", text)]


def test_there_are_recipes_for_all_that_is_promised():
    assert {path.name for path in CI.iterdir()} == {
        *("README.md", "github-cpu.yml", "github-gpu.yml", "github-comment.yml", "gitlab-ci.yml"),
        *("ab.sh", "static.sh", "static-pair.sh", "nightly.sh", "shell.sh"),
    }
    text = (CI / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"\]\((?!\.\.)([\w.-]+)\)|docs/ci/([\w.-]+\.sh)", text)
    assert {a or b for a, b in told} == {p.name for p in CI.iterdir()} - {"README.md"}


@pytest.mark.parametrize("path", [*SCRIPTS, *RECIPES, *OURS], ids=ids)
def test_every_command_exists_and_knows_its_options(path, capsys):
    for package, command, *words in commands(path):
        text = help_of(package, command, capsys) + _passed_on(command)
        assert options_known(words, text) == [], f"{package} {command}"
    for script, *words in scripts_called(path):
        assert (CI / script).is_file()
        behind = {"ab.sh": "run", "nightly.sh": "run", "static-pair.sh": "static"}.get(script)
        if behind:
            known = help_of("suites", behind, capsys) + _passed_on(behind)
            known += " ".join(_OF_SCRIPTS)
            assert options_known(words, known) == [], script


def _passed_on(command: str) -> str:
    """What `run` passes on to pytest, which alone lists it."""
    return (ROOT / "suites/session/options.py").read_text("utf-8") if command == "run" else ""


def test_the_commands_are_found_at_all():
    """So that a recipe that is written another way is not passed over."""
    counted = {path.name: len(commands(path)) + len(scripts_called(path)) for path in SCRIPTS}
    assert counted == {
        "ab.sh": 2,
        "static.sh": 2,
        "static-pair.sh": 3,
        "nightly.sh": 4,
        "shell.sh": 3,
    }
    assert len(scripts_called(CI / "github-cpu.yml")) == 2
    assert [call[0] for call in scripts_called(CI / "github-gpu.yml")] == ["ab.sh", "nightly.sh"]
    assert [call[0] for call in scripts_called(CI / "gitlab-ci.yml")] == ["ab.sh"]


@pytest.mark.parametrize("path", SCRIPTS, ids=ids)
def test_scripts_are_bash_and_stop_at_the_first_failure(path):
    assert path.stat().st_mode & 0o111, "not executable"
    assert "set -euo pipefail" in path.read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("path", GITHUB, ids=ids)
def test_a_strangers_pull_request_gets_nothing(path):
    text, workflow = path.read_text(encoding="utf-8"), read(path)
    assert "pull_request_target" not in workflow["on"]
    assert "secrets." not in text
    if "workflow_run" in workflow["on"]:
        # It may write: so it checks nothing out, and takes words from elsewhere by the environment.
        assert not any("checkout" in step.get("uses", "") for step in steps(path))
    else:
        assert workflow["permissions"] == {"contents": "read"}
        assert all("permissions" not in job for job in workflow["jobs"].values())
    for step in steps(path):
        assert "${{" not in step.get("run", "").replace("${{ matrix.python }}", "")
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", GITHUB, ids=ids)
def test_machines_of_ones_own_leave_forks_out(path):
    for job in read(path)["jobs"].values():
        if "self-hosted" in job["runs-on"]:
            condition = job["if"]
            is_same = "head.repo.full_name == github.repository" in condition
            assert is_same or "github.event_name == 'schedule'" in condition


def test_what_a_merge_request_shows_is_what_is_written():
    job = read(CI / "gitlab-ci.yml")["attention"]
    ((_, _, out, *_),) = scripts_called(CI / "gitlab-ci.yml")
    written = re.findall(r"\$out/([\w.]+)", (CI / "ab.sh").read_text(encoding="utf-8"))
    reports = job["artifacts"]["reports"]
    assert job["artifacts"]["when"] == "always"
    assert {reports["junit"], reports["metrics"]} <= {f"{out}/{name}" for name in written}


def test_our_own_workflow_uses_them():
    called = [call[0] for path in OURS for call in scripts_called(path)]
    assert {"ab.sh", "static.sh"} <= set(called)


@pytest.fixture
def python(tmp_path):
    """A Python that notes what it is asked, writes what it is told to, and ends as it is told."""
    fake = tmp_path / "python"
    fake.write_text(
        """#!/usr/bin/env bash
[ -z "${NOTE:-}" ] || [ -z "${PYTHONPATH:-}" ] || echo "PYTHONPATH=$PYTHONPATH" >> "$CALLS"
echo "$@" >> "$CALLS"
while [ $# -gt 1 ]; do
  case $1 in --markdown | --junit | --metrics) echo "GPU time: not measured" > "$2" ;; esac
  shift
done
[ -z "${SAYS:-}" ] || echo "$SAYS"
exit "${CODE:-0}"
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


def test_launches_take_turns_and_the_comment_is_there_whatever_the_verdict(python, repository):
    words = ("HEAD", "out", "--repo", str(repository), "--impl", "old:f")
    done, told, summary = call(python, "ab.sh", *words, LAUNCHES="4", CODE="1")
    assert done.returncode == 1, done.stderr
    *runs, gate = told
    assert [run.rsplit("/", 1)[1] for run in runs] == ["base", "head", "head", "base"] * 2
    assert all(run.startswith("-m suites run --budget smoke --impl old:f ") for run in runs)
    assert gate.startswith("-m results gate ") and "--github" not in gate
    out = python.parent / "out"
    assert {"comment.md", "junit.xml", "metrics.txt"} <= {path.name for path in out.iterdir()}
    assert summary == "GPU time: not measured\n"
    trees = ["git", "-C", str(repository), "worktree", "list"]
    assert subprocess.check_output(trees, text=True).count("\n") == 1


def test_each_side_is_built_and_imported_from_its_own_files(python, repository):
    build = f"cat old.py >> {python.parent}/built"
    words = ("HEAD", "out", "--repo", str(repository), "--build", build)
    paths = {"LAUNCHES": "1", "NOTE": "PYTHONPATH"}
    done, told, _ = call(python, "ab.sh", *words, GITHUB_ACTIONS="true", **paths)
    assert done.returncode == 0, done.stderr
    assert (python.parent / "built").read_text() == "was = 1\nis_now = 2\n"
    noted = [line for line in told if line.startswith("PYTHONPATH=")]
    assert [str(repository) in line for line in noted[:2]] == [False, True]
    assert all(line.startswith(f"PYTHONPATH={ROOT}:") for line in noted[:2])
    assert "--github" in told[-1]


def test_wrong_usage_ends_it_before_anything_is_judged(python, repository):
    words = ("HEAD", "out", "--repo", str(repository))
    done, told, _ = call(python, "ab.sh", *words, CODE="2")
    assert done.returncode == 2 and len(told) == 1


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
    base, head, gate = told
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


def test_every_night_measures_with_the_oldest_pytest_of_the_range_too():
    """A new pytest broke the plugin beside xdist (ionelmc/pytest-benchmark#286)."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (oldest,) = re.findall(r'"pytest>=([\d.]+)"', project)
    nightly = shell_of(ROOT / ".github/workflows/nightly.yml")
    assert f" pytest=={oldest}.0 " in nightly
    assert "PYTHONPATH=build/pytest .venv/bin/python -m pytest suites" in nightly
    assert "pytest-xdist" in project

"""docs/ci: recipes that parse, whose commands exist, and which give no stranger anything."""

from __future__ import annotations

import importlib
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
        behind = {"ab.sh": "ab", "nightly.sh": "run", "static-pair.sh": "static"}.get(script)
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
        "ab.sh": 1,
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


def test_every_night_measures_with_the_oldest_pytest_of_the_range_too():
    """Case Y06, pytest-benchmark#286: a new pytest broke the plugin beside xdist."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (oldest,) = re.findall(r'"pytest>=([\d.]+)"', project)
    nightly = shell_of(ROOT / ".github/workflows/nightly.yml")
    assert f" pytest=={oldest}.0 " in nightly
    assert "PYTHONPATH=build/pytest .venv/bin/python -m pytest suites" in nightly
    assert "pytest-xdist" in project

"""Figures as files: found by scan, the same bytes, no display or backend needed (I05, I10)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from reports.figures import latency, render, roofline
from results.store import load_run
from tests.drawn_run import rendered, sweep
from tests.fake_run import write_run

ROOT = Path(__file__).parent.parent


def test_the_same_run_gives_the_same_bytes_whatever_the_readers_settings(run_directory):
    run = load_run(run_directory(records=sweep(names=("naive", "flex"))))
    first = render(roofline, run)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        assert render(roofline, run) == first
    assert first is not None and "<dc:date>" not in first.svg and "font-size: 10px" in first.svg


def test_no_id_comes_twice_in_a_figure(run_directory):
    svg = rendered(latency, load_run(run_directory(records=sweep(names=("naive", "flex"))))).svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))


def in_a_child(code: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    unset = ("DISPLAY", "MPLCONFIGDIR")
    env = {k: v for k, v in os.environ.items() if k not in unset}
    env |= {"PYTHONPATH": str(ROOT)} | variables
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)


def test_figures_need_no_display_no_home_and_no_backend(tmp_path):
    """A backend that cannot be imported and a home that cannot be written, with no display."""
    write_run(tmp_path / "runs", records=sweep(names=("naive",), lengths=(128, 512)))
    code = (
        "import sys; from reports.__main__ import main\n"
        "code = main(['--store', 'runs', '--out', 'out'])\n"
        # Figures that pyplot never saw cannot be left open in it.
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "sys.exit(code)"
    )
    done = in_a_child(code, tmp_path, MPLBACKEND="module://nope", HOME="/dev/null/none")
    assert done.returncode == 0, done.stderr
    kinds = sorted(path.suffix for path in (tmp_path / "out").glob("*/*"))
    assert kinds.count(".png") == kinds.count(".svg") == 5


@pytest.mark.parametrize(
    "used",
    [
        "from reports.figures import figure_modules; figure_modules()",
        "from reports.cost.__main__ import main; assert main(['absent.json']) == 2",
        "from reports.command_line import complaining\n"
        "complaining(lambda: len(__import__('reports.comparison_figure').__name__))()",
    ],
)
def test_a_backend_from_the_environment_is_not_even_looked_at(tmp_path, used):
    """Whichever module of ours comes first to matplotlib: a word that is no backend stopped it."""
    code = f"{used}\nimport os; assert os.environ['MPLBACKEND'] == 'nonsense'"
    done = in_a_child(code, tmp_path, MPLBACKEND="nonsense")
    assert done.returncode == 0, done.stderr


def test_a_new_figure_is_one_new_file(tmp_path):
    for package in ("impls/interface", "results", "reports"):
        ignored = shutil.ignore_patterns("runs", "out", "__pycache__", "ceilings")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    (tmp_path / "impls/__init__.py").write_text('"""What is measured."""\n')
    (tmp_path / "reports/figures/brand_new.py").write_text(
        '"""A bar."""\n\nfrom reports.axes import new_figure\n\nTITLE = "Brand new"\n\n\n'
        'def draw(run):\n    """A bar."""\n    figure = new_figure(3, 2)\n'
        "    figure.add_subplot().bar([1], [len(run.cells)])\n    return figure\n"
    )
    write_run(tmp_path / "runs", records=sweep(names=("naive",), lengths=(128,)))
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "reports", "--store", str(tmp_path / "runs")]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "reports/out").iterdir()
    assert (folder / "brand_new.png").stat().st_size and (folder / "brand_new.svg").stat().st_size
    assert "Brand new" in (folder / "report.html").read_text()

"""The rules of the house: who may import whom, how large, how named, and what works without what.

A rule is a function from a tree (path → text) to its breaches, so that each can be shown to bite.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("impls", "suites", "results", "reports")
NOT_OURS = {"__pycache__", "runs", "ceilings", "out"}
TREE = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in (*PACKAGES, "tests", ".")
    for path in sorted((ROOT / folder).glob("*.py" if folder == "." else "**/*.py"))
    if not NOT_OURS.intersection(path.relative_to(ROOT).parts)
}
# What counts, and what every command does to its streams: none of it knows torch.
LIGHT = ("impls.interface.problem", "impls.interface.cost", "impls.interface.streams")
ARROWS = {
    "impls": ("impls",),
    "suites": ("suites", "impls"),
    "results": ("results", *LIGHT),
    "reports": ("reports", "results", *LIGHT),
    "conftest.py": PACKAGES,  # wiring: it alone sees both ends
}
OPTIONAL = (
    *("triton", "xformers", "pynvml", "ray", "flash_attn", "flash_attn_interface", "flashinfer"),
    *("transformer_engine", "sageattention"),
)
VAGUE = {"utils", "util", "common", "helpers", "helper", "misc", "base"}
LONGEST_MODULE = 300
LONGEST_FIRST_LINE = 88


def imports(text: str, *, only_top_level: bool = False) -> Iterator[str]:
    """Every absolute name imported by a module, `a.b.c` for `from a.b import c`."""
    tree = ast.parse(text)
    for node in tree.body if only_top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, allowed: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in allowed)


def against_the_arrows(tree: dict[str, str]) -> list[str]:
    return [
        f"{path} imports {name}"
        for path, text in tree.items()
        if (allowed := ARROWS.get(path.split("/")[0]))
        for name in imports(text)
        if within(name, (*PACKAGES, "conftest", "tests")) and not within(name, allowed)
    ]


def between_implementations(tree: dict[str, str]) -> list[str]:
    """Imports from one entry of impls/ to another; all may import the interface, nobody else."""
    breaches = []
    for path, text in tree.items():
        parts = path.removesuffix(".py").split("/")
        if parts[0] != "impls" or (len(parts) == 2 and parts[1].startswith("__")):
            continue
        allowed = ("impls.interface", f"impls.{parts[1]}")
        breaches += [
            f"{path} imports {name}"
            for name in imports(text)
            if within(name, ("impls",)) and name != "impls" and not within(name, allowed)
        ]
    return breaches


def too_long(tree: dict[str, str]) -> list[str]:
    return [
        f"{path} has {lines} lines"
        for path, text in tree.items()
        if (lines := len(text.splitlines())) > LONGEST_MODULE
    ]


def badly_named(tree: dict[str, str]) -> list[str]:
    """Vague names, and modules named like a library they import (they would import themselves)."""
    breaches = []
    for path, text in tree.items():
        names = set(path.removesuffix(".py").split("/"))
        libraries = {name.split(".")[0] for name in imports(text)} - {*PACKAGES, "tests"}
        breaches += [f"{path}: {name}" for name in sorted(names & (VAGUE | libraries))]
    return breaches


def optional_at_the_top(tree: dict[str, str]) -> list[str]:
    """Top-level imports of optional libraries, outside the kernel modules a launcher imports."""
    return [
        f"{path} imports {name}"
        for path, text in tree.items()
        if path.split("/")[0] in PACKAGES and not is_kernel_module(path)
        for name in imports(text, only_top_level=True)
        if within(name, OPTIONAL)
    ]


def is_kernel_module(path: str) -> bool:
    folders, _, module = path.rpartition("/")
    of_no_kernels = ("impls/interface", "impls/layer")
    is_in_a_package_of_impls = folders.startswith("impls/") and folders not in of_no_kernels
    return is_in_a_package_of_impls and module != "__init__.py"


def silenced_without_reason(tree: dict[str, str]) -> list[str]:
    """Silenced checkers and caught-all exceptions without words beside them or a line above."""
    silencer = re.compile(
        r"#\s*(noqa|type:\s*ignore|pyright:\s*ignore)\b:?\s*(\[[^]]*\]|[A-Z]+\d+[, A-Z\d]*)?"
        r"|^\s*except(\s+(Base)?Exception\b[^:]*)?:"
    )
    breaches = []
    for path, text in tree.items():
        above = ""
        for number, line in enumerate(text.splitlines(), 1):
            found = silencer.search(line)
            is_explained = found and re.search(r"\w+ \w+", line[found.end() :])
            if found and not is_explained and not above.lstrip().startswith("#"):
                breaches.append(f"{path}:{number}: {line.strip()}")
            above = line
    return breaches


def left_for_later(tree: dict[str, str]) -> list[str]:
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)))
    return [path for path, text in tree.items() if marks.search(text)]


def long_first_lines(tree: dict[str, str]) -> list[str]:
    return [
        f"{path}: {node.name}"
        for path, text in tree.items()
        if path.split("/")[0] in PACKAGES
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if len((ast.get_docstring(node) or "").split("\n")[0]) > LONGEST_FIRST_LINE
    ]


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True
    )


IMPORT_ALL = """
import importlib, sys
forbidden, modules = sys.argv[1].split(","), sys.argv[2:]
for name in forbidden:
    sys.modules[name] = None  # absent to find_spec and to import alike
for module in modules:
    importlib.import_module(module)
"""


def import_without(forbidden: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """The last line a fresh Python wrote on importing every module; empty when all went well."""
    modules = [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in TREE
        if path.split("/")[0] in packages
        if not path.endswith("__main__.py") and not is_kernel_module(path)
    ]
    child = run_python(IMPORT_ALL, ",".join(forbidden), *modules)
    return child.stderr.strip().split("\n")[-1] if child.returncode else ""


def test_imports_point_one_way():
    assert against_the_arrows(TREE) == []
    for path, text in (
        ("impls/naive.py", "from suites.measure import clocks"),
        ("suites/bench_heads.py", "import results"),
        ("results/store.py", "from impls.interface import attention"),
        ("reports/page.py", "def f():\n    from impls import registry"),
        ("suites/conftest.py", "import reports.table"),
        ("conftest.py", "from tests import fake_run"),
    ):
        assert against_the_arrows({path: text}), text
    assert not against_the_arrows({"results/store.py": "from impls.interface import cost"})


def test_implementations_never_import_one_another():
    assert between_implementations(TREE) == []
    assert between_implementations({"impls/chunked.py": "from impls.naive import forward"})
    assert between_implementations({"impls/interface/check.py": "import impls.naive"})
    assert between_implementations({"impls/layer/models.py": "from impls import sdpa"})
    assert not between_implementations({"impls/t/launch.py": "from impls.t import kernel"})


def test_modules_hold_at_most_300_lines():
    assert too_long(TREE) == []
    assert too_long({"impls/a.py": "x = 1\n" * 301})


def test_modules_are_named_by_what_they_hold():
    assert badly_named(TREE) == []
    for path, text in (
        ("suites/utils.py", ""),
        ("impls/base/a.py", ""),
        ("impls/xformers.py", "def f():\n    import xformers.ops"),
    ):
        assert badly_named({path: text}), path


def test_optional_libraries_are_imported_where_they_are_used():
    assert optional_at_the_top(TREE) == []
    assert optional_at_the_top({"suites/measure/nvml.py": "import pynvml"})
    assert not optional_at_the_top({"impls/triton_flash/forward.py": "import triton"})


def test_silenced_checks_carry_a_reason():
    assert silenced_without_reason(TREE) == []
    for line in ("x = 1  # no" + "qa: E501", "y()  # type: ig" + "nore[call]", "except Exception:"):
        assert silenced_without_reason({"a.py": line}), line
    assert not silenced_without_reason({"a.py": "y()  # type: ig" + "nore[call]  # a stub lies"})


def test_nothing_is_left_for_later():
    assert left_for_later(TREE) == []
    assert left_for_later({"a.py": "# TO" + "DO: speed"})


def test_first_lines_of_public_docstrings_fit_in_88_characters():
    assert long_first_lines(TREE) == []
    assert long_first_lines({"impls/a.py": f'def f():\n    """{"x" * 89}"""'})


def test_results_and_reports_import_without_torch():
    assert import_without(("torch", "triton", "xformers", "suites"), ("results", "reports")) == ""
    assert "torch" in import_without(("torch",), ("impls",))


def test_everything_imports_without_the_optional_libraries():
    assert import_without(OPTIONAL, PACKAGES) == ""


def test_the_registry_answers_without_the_optional_libraries():
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))\n"
        "from impls.interface.registry import implementations; print(*implementations())"
    )
    child = run_python(program)
    assert child.returncode == 0, child.stderr
    assert "naive" in child.stdout.split()


def test_tests_lie_flat():
    assert [path for path in TREE if path.startswith("tests/") and path.count("/") > 1] == []
    assert not list((ROOT / "tests").rglob("__init__.py"))
    assert not [name for name in PACKAGES if (ROOT / "tests" / name).exists()]

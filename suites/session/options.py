"""The options of `pytest suites`: declared once, read once, refused with what would do."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from impls.interface.named_object import is_of_an_object
from impls.interface.problem import DTYPES, PASSES, Problem
from impls.interface.spellings import full_dtype
from suites.session.shard import Shard

BUDGETS = {"smoke": 10.0, "quick": 78.0, "default": 640.0, "full": 3600.0}
_DAY_S = 86400
CACHES = ("cold", "hot", "graph")
CONVENTIONS = ("exact", "fa")


def add(parser: Any) -> None:
    """Declare our options on pytest's parser, in a group of their own."""
    group = parser.getgroup("attnbench", "attnbench: what is measured, and how")

    def option(flag: str, **how: Any) -> None:
        group.addoption(flag, **how)

    option(
        "--impl",
        action="append",
        default=[],
        metavar="NAME|MODULE:FUNC|FILE.py:FUNC",
        help="measure only these (repeatable, commas allowed); the baseline is measured beside",
    )
    option(
        "--problem",
        action="append",
        default=[],
        metavar="SIZES",
        help='replace the built-in sizes, as "B=4,T=8192,H=32,H_kv=8,d_h=128,causal" (repeatable)',
    )
    option("--shapes", metavar="FILE.csv", help="replace the built-in sizes; columns are B,T,H,…")
    option("--baseline", default="naive", metavar="NAME|none", help="ratios are to this one")
    option("--device", default="auto", choices=("auto", "cpu", "cuda"), help="default: auto")
    option("--dtype", default=None, metavar="NAME[,NAME]", help=f"of {', '.join(DTYPES)}")
    option("--passes", default="forward", metavar="NAME[,NAME]", help=f"of {', '.join(PASSES)}")
    option("--threads", type=int, default=1, metavar="N", help="CPU threads (default: 1)")
    option(
        "--budget",
        default="quick",
        choices=tuple(BUDGETS),
        help="how far up the ladders of sizes: about two minutes (quick), fifteen "
        "(default, all sweeps), hours; a bench file that is named is measured in any",
    )
    option("--seconds", type=float, metavar="S", help="of cells, in place of the budget's own")
    option("--cache", default=None, choices=CACHES, help="default: cold on CUDA, hot on a CPU")
    option("--flop-convention", default="exact", choices=CONVENTIONS, help="fa: causal is half")
    option(
        "--compile-limit",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds per compile or first call",
    )
    option("--shard", metavar="I/N", help="part I of N of all cells; `results merge` makes one run")
    option("--resume", metavar="RUN", help="go on with this run: only the cells it lacks")
    option("--store", metavar="DIR", help="folder of runs (default: results/runs)")


@dataclass(frozen=True)
class Options:
    """What the user asked for, checked; sizes None means the built-in ones."""

    impls: tuple[str, ...]
    brought: tuple[str, ...]
    problems: tuple[str, ...] | None
    baseline: str | None
    device: str
    dtypes: tuple[str, ...] | None
    passes: tuple[str, ...]
    threads: int
    budget: str
    cache: str | None
    flop_convention: str
    compile_limit_s: float
    shard: Shard | None
    resume: str | None
    store: Path
    min_samples: int | None
    max_time_s: float | None
    seconds: float | None = None

    @property
    def planned_s(self) -> float:
        """Seconds of cells that a plan has room for."""
        return BUDGETS[self.budget] if self.seconds is None else self.seconds

    def sizes(self, dtype: str) -> list[Problem] | None:
        """The problems the user gave, at `dtype` where they name none; None: the built-in ones."""
        if self.problems is None:
            return None
        return [Problem.parse(text, dtype=dtype) for text in self.problems]


def read(config: Any) -> Options:
    """The options of a pytest config.

    Raises:
        ValueError: something given has no meaning; the message says what would do.
    """
    get = config.getoption
    names = _words(get("--impl"))
    if get("--impl") and not names:
        raise ValueError('--impl "" names none: leave it out to measure all there are')
    problems = [*get("--problem"), *_rows(get("--shapes"))]
    for text in problems:
        if Problem.parse(text).is_empty:
            raise ValueError(f'"{text}" is an empty problem: nothing to measure')
    most = os.cpu_count() or 1
    if not 1 <= get("--threads") <= most:
        raise ValueError(f"--threads {get('--threads')}: give 1 to {most}, the CPUs there are")
    if not 0 < get("--compile-limit") <= _DAY_S:
        raise ValueError(
            f"--compile-limit {get('--compile-limit')}: give seconds, above 0 and at most {_DAY_S}"
        )
    if get("--seconds") is not None and not 0 < get("--seconds") <= _DAY_S:
        raise ValueError(f"--seconds {get('--seconds')}: above 0 and at most {_DAY_S}")
    if "benchmark_timer" in vars(config.option) and _is_given(config, "--benchmark-timer"):
        raise ValueError("--benchmark-timer is refused: the clock is part of what a cell is")
    baseline = get("--baseline")
    if is_of_an_object(baseline):
        raise ValueError(
            f"--baseline {baseline}: bring it by --impl {baseline}, and give the name it has there"
        )
    return Options(
        impls=tuple(n for n in names if not is_of_an_object(n)),
        brought=tuple(n for n in names if is_of_an_object(n)),
        problems=tuple(problems) or None,
        baseline=None if baseline == "none" else baseline,
        device=get("--device"),
        dtypes=_dtypes(get("--dtype")),
        passes=_known("--passes", get("--passes"), PASSES) or ("forward",),
        threads=get("--threads"),
        budget=get("--budget"),
        cache=get("--cache"),
        flop_convention=get("--flop-convention"),
        compile_limit_s=get("--compile-limit"),
        shard=Shard.parse(get("--shard")) if get("--shard") is not None else None,
        resume=get("--resume"),
        store=store_folder(get("--store")),
        min_samples=_given(config, "--benchmark-min-rounds", int),
        max_time_s=_given(config, "--benchmark-max-time", float),
        seconds=get("--seconds"),
    )


def store_folder(chosen: str | None) -> Path:
    """The folder of runs: `chosen`, else $ATTNBENCH_STORE, else the checkout's own.

    That is `results/runs`, whatever the current folder. `results.store` reads the same place.
    """
    given = chosen or os.environ.get("ATTNBENCH_STORE")
    if given:
        # Path.expanduser raises where there is no such user; a shell leaves `~nobody` as it is.
        return Path(os.path.expanduser(given)).absolute()  # noqa: PTH111
    return Path(__file__).resolve().parents[2] / "results" / "runs"


def _is_given(config: Any, flag: str) -> bool:
    return any(a == flag or a.startswith(f"{flag}=") for a in config.invocation_params.args)


def _given(config: Any, flag: str, read_as: Any) -> Any:
    return read_as(config.getoption(flag)) if _is_given(config, flag) else None


def _words(given: Sequence[str]) -> list[str]:
    words = [w.strip() for text in given for w in text.split(",")]
    return list(dict.fromkeys(w for w in words if w))


def _dtypes(text: str | None) -> tuple[str, ...] | None:
    """PyTorch's names, bf16 for bfloat16 and the like taken too."""
    full = None if text is None else ",".join(map(full_dtype, _words([text])))
    return _known("--dtype", full, DTYPES)


def _known(flag: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(_words([text]))
    if wrong := [w for w in words if w not in known]:
        raise ValueError(f"{flag} {wrong[0]}: one of {', '.join(known)}")
    return words or None


def _rows(path: str | None) -> list[str]:
    """The problems of a CSV file, each row as the text `--problem` takes."""
    if path is None:
        return []
    file = Path(path)
    # A pipe will do: --shapes <(a command that writes sizes).
    if not file.exists() or file.is_dir():
        raise ValueError(f"--shapes {path}: {'a folder' if file.is_dir() else 'no such file'}")
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines)
            rows, columns = list(table), [name.strip() for name in table.fieldnames or ()]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"--shapes {path}: {error}: give a CSV file in UTF-8") from None
    if not rows:
        raise ValueError(f"--shapes {path}: no rows under a header such as B,T,H,H_kv,d_h,causal")
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ValueError(f"--shapes {path}: {twice[0] or 'an unnamed column'} is there twice")
    texts = []
    for number, row in enumerate(rows, start=2):
        if None in row:
            raise ValueError(
                f"--shapes {path}, line {number}: more fields than the header's {len(columns)}: "
                "name each column, such as B,T,H,d_h,causal (true or false)"
            )
        given = {k.strip(): v.strip() for k, v in row.items() if k and v and v.strip()}
        text = ",".join(f"{k}={v}" for k, v in given.items())
        try:
            Problem.parse(text)
        except ValueError as error:
            raise ValueError(f"--shapes {path}, line {number}: {error}") from error
        texts.append(text)
    return texts

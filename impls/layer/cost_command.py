"""`python -m impls cost`: what a problem, a model's attention, or a choice of variants costs."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from impls.interface import device_rates
from impls.interface.cost import CONVENTIONS, Cost, cost
from impls.interface.device_rates import DeviceRates
from impls.interface.layer_shape import Latent, LayerShape, ModelShape
from impls.interface.problem import DTYPES, PASSES, SOFTMAX, Problem
from impls.interface.spellings import full_dtype
from impls.interface.terminal import UNKNOWN, counted, plain_table, show
from impls.layer.card import card
from impls.layer.card_table import print_card
from impls.layer.comparison import Comparison, Setting, compare
from impls.layer.comparison_table import print_comparison
from impls.layer.lengths import finer, parse_lengths
from impls.layer.model_config import DEFAULT_T, read_config
from impls.layer.models import Model, model

EXAMPLES = """examples:
  python -m impls cost --problem "B=4,T=8192,H=32,H_kv=8,d_h=128,causal,bfloat16"
  python -m impls cost --model llama-2-70b --T 4k --device h200-sxm --weights-gb 138
  python -m impls cost --d_model 8192 --H 64 --H_kv 8 --L 80 --json
  python -m impls cost --config path/to/config.json --device h100-sxm
  python -m impls cost --compare mha,gqa8,mqa,mla --T 1k:2M --device h200-sxm --plot figures

exit codes: 0 counted, 2 usage, 5 the figures could not be drawn"""

ROOT = Path(__file__).resolve().parents[2]
_DTYPE, _LENGTHS, _BASE, _REQUESTS = "float16", "1k:128k", "llama-2-70b", 100
_FREE = ("H", "H_kv", "d_h", "L", "window", "d_c", "d_R", "d_v", "d_c_q")
# What belongs to a layer or a model and would be passed over with a core problem.
_LAYER_ONLY = ("T", "dtype", "device", "weights_gb", "memory_gb", "compare", "requests", "plot")
_BROKEN = 5
_LONGEST_COUNT = 1e15  # three columns of longer ones do not fit in 80 characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything `cost` takes beside `--json`."""
    of_what = parser.add_argument_group("what is counted (one of these)")
    one = of_what.add_mutually_exclusive_group()
    one.add_argument("--problem", metavar="TEXT", help='the core: "B=4,T=8192,H=32,d_h=128,causal"')
    one.add_argument("--model", metavar="NAME", help="a published model: llama-2-70b, …")
    one.add_argument("--config", metavar="FILE", type=Path, help="a Hugging Face config.json")
    one.add_argument("--d_model", type=int, metavar="N", help="a model of free sizes, with these:")
    helps = {
        "H": "query heads (needed)",
        "H_kv": "key and value heads (default: H)",
        "d_h": "of a head (default: d_model / H)",
        "L": "layers (default: 1)",
        "window": "keys a query may see, in all layers",
        "d_c": "latent width: the layers are MLA, and d_R is needed",
        "d_R": "MLA: width of the rotary key",
        "d_v": "MLA: width of a head's value (default: d_h)",
        "d_c_q": "MLA: width of the queries' latent (default: none)",
    }
    for name in _FREE:
        of_what.add_argument(f"--{name}", type=int, metavar="N", help=helps[name])
    parser.add_argument("--flop-convention", choices=CONVENTIONS, help="of --problem alone")
    of_layer = parser.add_argument_group("with a model")
    of_layer.add_argument("--T", metavar="T", help="4096, 4k (k = 1024); a range 1k:2M to compare")
    of_layer.add_argument(
        "--dtype", type=full_dtype, choices=DTYPES, help=f"of weights and cache ({_DTYPE})"
    )
    of_layer.add_argument(
        "--device", metavar="KEY", help="a datasheet, h200-sxm, …; else what was measured here"
    )
    of_layer.add_argument("--weights-gb", type=float, metavar="GB", help="all weights of the model")
    of_layer.add_argument("--memory-gb", type=float, metavar="GB", help="instead of the device's")
    of_layer.add_argument(
        "--compare", metavar="LIST", help=f"mha,gqa8,mqa,mla or models, of --model ({_BASE})"
    )
    of_layer.add_argument(
        "--requests", type=int, metavar="N", help=f"to be served when comparing ({_REQUESTS})"
    )
    of_layer.add_argument("--plot", metavar="DIR", type=Path, help="write the comparison's figures")


def run(given: argparse.Namespace) -> int:
    """Count what was asked for and print it → the exit code.

    Raises:
        ValueError: the arguments do not go together, or name nothing known.
    """
    if given.problem is not None:
        _refuse(given, (*_FREE, *_LAYER_ONLY), "--problem is the core alone")
        return _run_problem(given)
    _refuse(given, ("flop_convention",), "a model's FLOP are counted exactly")
    if given.compare is not None:
        return _run_comparison(given)
    _refuse(given, ("plot", "requests"), "that is of a comparison: add --compare mha,gqa8,mqa,mla")
    return _run_card(given)


def _run_problem(given: argparse.Namespace) -> int:
    problem = Problem.parse(given.problem)
    convention = given.flop_convention or CONVENTIONS[0]
    if problem.operator != SOFTMAX:
        # Its module needs torch, which nothing else that is counted here does.
        from impls.layer.lineage import operator_of

        costs = {"forward": operator_of(problem).cost(problem)}
        convention = costs["forward"].flop_convention
    else:
        costs = {pass_: cost(problem, pass_, convention) for pass_ in PASSES}
    if given.json:
        passes = {p: asdict(c) | {"flop_per_byte": c.intensity} for p, c in costs.items()}
        _print_json({"problem": problem.to_json(), "passes": passes})
    else:
        _print_problem(problem, convention, costs)
    return 0


def _print_problem(problem: Problem, convention: str, costs: dict[str, Cost]) -> None:
    """One column per pass."""
    table = plain_table("", *costs)
    rows = {
        "pairs per head": lambda c: _whole(c.pairs),
        "FLOP": lambda c: _whole(c.flop),
        "exponentials": lambda c: _whole(c.exp),
        "compulsory bytes": lambda c: _whole(c.compulsory_bytes),
        "FLOP / byte": lambda c: UNKNOWN if c.intensity is None else f"{c.intensity:.1f}",
    }
    for name, shown in rows.items():
        table.add_row(name, *(shown(c) for c in costs.values()))
    print(f"{problem.id} ({convention} FLOP convention)")
    show(table)


def _whole(count: int) -> str:
    """Every digit while three columns of them fit on a terminal, else four and a prefix."""
    return f"{count:,}" if count < _LONGEST_COUNT else counted(count)


def _run_card(given: argparse.Namespace) -> int:
    one, dtype = _model(given)
    lengths = [one.typical_T] if given.T is None else parse_lengths(given.T)
    if len(lengths) > 1:
        raise ValueError(f"a card is of one T, --T {given.T} is many: add --compare")
    found = card(
        one,
        lengths[0],
        dtype,
        rates=_rates(given),
        memory_bytes=_bytes(given.memory_gb, "--memory-gb"),
        model_weight_bytes=_bytes(given.weights_gb, "--weights-gb"),
    )
    _print_json(found.to_json()) if given.json else print_card(found)
    return 0


def _run_comparison(given: argparse.Namespace) -> int:
    if given.model is None and given.config is None and given.d_model is None:
        given.model = _BASE
    base, dtype = _model(given)
    words = [word.strip() for word in given.compare.split(",") if word.strip()]
    if not words:
        raise ValueError("--compare names nothing: try --compare mha,gqa8,mqa,mla")
    requests = _REQUESTS if given.requests is None else given.requests
    if requests < 1:
        raise ValueError(f"--requests {requests} is nothing to serve: give 1 or more")
    rates, memory = _rates(given), _bytes(given.memory_gb, "--memory-gb")
    setting = Setting(
        dtype=dtype,
        rates=rates,
        memory_bytes=rates.memory_bytes if rates and memory is None else memory,
        model_weight_bytes=_bytes(given.weights_gb, "--weights-gb"),
        requests=requests,
    )
    lengths = parse_lengths(given.T or _LENGTHS)
    found = compare(base, words, lengths, setting)
    _print_json(found.to_json()) if given.json else print_comparison(found)
    if given.plot is None:
        return 0
    return _plot(compare(base, words, finer(lengths), setting), given.plot, quiet=given.json)


def _plot(found: Comparison, folder: Path, *, quiet: bool) -> int:
    """Hand the numbers to `python -m reports.cost`, which draws: impls imports nothing of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "reports.cost", "-", "--out", str(folder.resolve())],
        input=json.dumps(found.to_json(), allow_nan=False),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
    )
    print(done.stdout, end="", file=sys.stderr if quiet else sys.stdout)
    return _BROKEN if done.returncode else 0


def _model(given: argparse.Namespace) -> tuple[Model, str]:
    """The model the arguments describe, and the dtype."""
    if given.d_model is None:
        _refuse(given, _FREE, "a size goes with --d_model")
    if given.model is not None:
        return model(given.model), given.dtype or _DTYPE
    if given.config is not None:
        one, dtype = read_config(given.config)
        return one, given.dtype or dtype or _DTYPE
    if given.d_model is None:
        raise ValueError(
            "nothing to count: give --model NAME, --config FILE, --d_model N --H N, or --problem"
        )
    if given.H is None:
        raise ValueError(f"--d_model {given.d_model} alone says no heads: add --H")
    shape = _free_shape(given)
    return Model("given sizes", shape, DEFAULT_T, source=""), given.dtype or _DTYPE


def _free_shape(given: argparse.Namespace) -> ModelShape:
    layer = LayerShape(
        d_model=given.d_model,
        H=given.H,
        d_h=-1 if given.d_h is None else given.d_h,
        H_kv=-1 if given.H_kv is None else given.H_kv,
    )
    if given.d_c is not None:
        if given.d_R is None:
            raise ValueError(f"--d_c {given.d_c} makes the layers MLA: add --d_R")
        d_v = layer.d_h if given.d_v is None else given.d_v
        latent = Latent(d_c=given.d_c, d_R=given.d_R, d_v=d_v, d_c_q=given.d_c_q)
        layer = LayerShape(layer.d_model, layer.H, layer.d_h, layer.H_kv, latent)
    else:
        _refuse(given, ("d_R", "d_v", "d_c_q"), "that is of MLA: add --d_c")
    L = 1 if given.L is None else given.L
    return ModelShape(layer, L, given.window, L if given.window is not None else 0)


def _rates(given: argparse.Namespace) -> DeviceRates | None:
    if given.device is not None:
        return device_rates.of_datasheet(given.device)
    return device_rates.measured_here()


def _bytes(gigabytes: float | None, option: str) -> int | None:
    if gigabytes is None:
        return None
    if not (math.isfinite(gigabytes) and gigabytes > 0):
        raise ValueError(f"{option} {gigabytes:g} is no size: give gigabytes (10⁹ bytes)")
    return round(gigabytes * 1e9)


def _refuse(given: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(given, name) is not None:
            raise ValueError(f"{_option(name)}: {why}")


def _print_json(record: dict[str, Any]) -> None:
    print(json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False))


def _option(name: str) -> str:
    """How a user writes it: sizes as in the paper, --d_h; all else with hyphens."""
    return f"--{name}" if name in _FREE else f"--{name.replace('_', '-')}"

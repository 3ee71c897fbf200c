"""The card of `python -m impls cost --model …` as text within 80 columns."""

from __future__ import annotations

from rich.table import Table

from impls.interface.layer_shape import ModelShape
from impls.interface.terminal import (
    UNKNOWN,
    counted,
    digits,
    gibibytes,
    gigabytes,
    plain_table,
    say,
    show,
)
from impls.layer.card import Card, Part, Serving
from impls.layer.serving import Bound

NO_RATES = (
    "no bandwidth is known: give --device KEY, or measure this machine's with "
    "python -m suites ceilings (--keep on a machine that is never quiet)"
)


def print_card(card: Card) -> None:
    """Sizes and source; the counts of each kind of layer; the cache; the device; warnings."""
    one = card.model
    print(f"{one.name}: {sizes(one.shape)}")
    for line in dict.fromkeys((one.source, one.url)):
        say(line, "  ")
    print(f"T = {card.T}, {card.dtype}\n")
    _print_counts(card)
    crossings = (
        f"prefill {_crossing(card.prefill_crossing_T)}, decode {_crossing(card.decode_crossing_T)}"
    )
    print(f"core = projections at T: {crossings}\n")
    _print_cache(card)
    print()
    if card.serving is None:
        say(f"decode bound {UNKNOWN} {NO_RATES}", "")
    else:
        _print_serving(card.serving, card.T)
    for warning in card.warnings:
        say(f"note: {warning}", "      ", first="")


def sizes(shape: ModelShape) -> str:
    """A stack in the paper's letters: "GQA-8, L 80, d_model 8192, H 64, H_kv 8, d_h 128"."""
    layer = shape.layer
    parts = [layer.variant, f"L {shape.L}", f"d_model {layer.d_model}", f"H {layer.H}"]
    if layer.latent is None:
        parts += [f"H_kv {layer.H_kv}", f"d_h {layer.d_h}"]
    else:
        of = layer.latent
        parts += [f"d_h {layer.d_h}", f"d_c {of.d_c}", f"d_R {of.d_R}", f"d_v {of.d_v}"]
    if shape.window is not None:
        where = "" if shape.L_window == shape.L else f" in {shape.L_window}"
        parts.append(f"window {shape.window}{where}")
    return ", ".join(parts)


def _print_counts(card: Card) -> None:
    parts = [(_kind(card, part), part) for part in card.kinds]
    if card.all_layers.count > 1:
        parts.append((f"all {card.all_layers.count}", card.all_layers))
    table = plain_table("", *(name for name, _ in parts))

    flops = {name: [getattr(part, name) for _, part in parts] for name in ("prefill", "decode")}
    table.add_row("parameters, no biases", *(f"{part.weights:,}" for _, part in parts))
    if card.biases_per_layer:
        counts = [1] * len(card.kinds) + [card.all_layers.count][: len(parts) - len(card.kinds)]
        more = [f"+ {card.biases_per_layer * count:,}" for count in counts]
        table.add_row("  biases, if any", *more)
    seen = "mean of a causal T" if card.layer.is_causal else "full"
    for name, keys in (("prefill", seen), ("decode", "one token sees T")):
        table.add_row(f"FLOP a token, {name}", *(counted(flop.per_token) for flop in flops[name]))
        rates = [(flop.projections / flop.tokens, flop.core / flop.tokens) for flop in flops[name]]
        table.add_row("  projections", *(counted(projections) for projections, _ in rates))
        table.add_row(f"  core ({keys})", *(counted(core) for _, core in rates))
        shares = [f"{100 * flop.core_share:.1f} %" for flop in flops[name]]
        table.add_row("  core's share", *shares)
    show(table)


def _kind(card: Card, part: Part) -> str:
    if card.all_layers.count == 1:
        return "the layer"
    if len(card.kinds) == 1:
        return "a layer"
    return f"{part.count} {'full' if part.window is None else 'windowed'}, each"


def _print_cache(card: Card) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_row(
        "KV cache of a sequence", gigabytes(card.cache_bytes), gibibytes(card.cache_bytes)
    )
    if card.unwindowed_cache_bytes != card.cache_bytes:
        kept = card.unwindowed_cache_bytes
        table.add_row("  if all T were kept", gigabytes(kept), gibibytes(kept))
    if card.layer.variant not in ("MHA", "single-head"):
        mha = card.mha_cache_bytes
        table.add_row(
            "  as MHA", gigabytes(mha), gibibytes(mha), f"{digits(card.mha_ratio)} times as much"
        )
    show(table)


def _print_serving(serving: Serving, T: int) -> None:
    rates = serving.rates
    print(f"decode bound on {rates.name}, {digits(rates.bytes_per_s / 1e9)} GB/s")
    say(f"({rates.source})", "  ")
    table = plain_table("", "ms a step", "weights GB", "cache GB", "tokens/s", "bound by")
    table.add_row("  attention alone", *_step(serving.attention))
    if serving.whole is not None:
        table.add_row("  whole model", *_step(serving.whole))
    if serving.full is not None and serving.full.tokens > 1:
        table.add_row(f"  {_sequences(serving.full.tokens)}", *_step(serving.full))
    show(table)
    if serving.memory_bytes is None or serving.sequences is None:
        say(f"memory of {rates.name} unknown: --memory-gb says how many sequences fit", "  ")
        return
    memory, held = serving.memory_bytes, serving.held_bytes
    whose = "the attention's" if serving.whole is None else "the model's"
    fit = f"{_sequences(serving.sequences)} of T = {T} " + (
        "fits" if serving.sequences == 1 else "fit"
    )
    less = f"{gigabytes(memory)} less {gigabytes(held)} of {whose} weights"
    say(f"{less} leave {gigabytes(max(0.0, memory - held))}: {fit}", "  ", first="")
    if serving.whole is None:
        say("the model's other weights take room too: say with --weights-gb how much all do", "  ")


def _step(bound: Bound) -> list[str]:
    return [
        digits(bound.time_s * 1e3),
        digits(bound.weight_bytes / 1e9, 4),
        digits(bound.cache_bytes / 1e9, 4),
        digits(bound.tokens_per_s),
        bound.binds,
    ]


def _crossing(T: int | None) -> str:
    return "never (the window)" if T is None else f"{T:,}"


def _sequences(count: int) -> str:
    return f"{count:,} sequence" + ("" if count == 1 else "s")

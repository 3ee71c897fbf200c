"""The table of `python -m impls cost --compare …` as text within 80 columns."""

from __future__ import annotations

from impls.interface.device_rates import DeviceRates
from impls.interface.terminal import UNKNOWN, digits, gigabytes, plain_table, say, show
from impls.layer.card_table import NO_RATES, sizes
from impls.layer.comparison import Comparison, Row
from impls.layer.lengths import length_text


def print_comparison(found: Comparison) -> None:
    """One table, a block of variants per T, and what its columns mean."""
    setting = found.setting
    print(f"{found.base.name}: {sizes(found.base.shape)}")
    print(f"attention of all {found.base.shape.L} layers, {setting.dtype}")
    for one in found.variants:
        of = one.shape.layer.latent
        if one.shape.layer.variant != one.name:
            print(f"  {one.name}: {sizes(one.shape)}")
        elif of is not None:
            whose = "" if of == found.base.shape.layer.latent else ", in DeepSeek-V2's proportions"
            queries = UNKNOWN if of.d_c_q is None else of.d_c_q
            told = f"d_c {of.d_c}, d_R {of.d_R}, d_v {of.d_v}, d_c_q {queries}{whose}"
            print(f"  {one.name}: {told}")
    print()
    table = plain_table(
        *("T", "", "M params\na layer", "GFLOP a tok.\nprefill", "\ndecode", "cache\nGB"),
        *("ms a\ntoken", "sequences\na device", f"devices\nfor {setting.requests}"),
        left=2,
        padding=1,
    )
    weights = {one.name: one.weights_per_layer for one in found.variants}
    names = [one.name for one in found.variants]
    for row in found.rows:
        is_last = row.variant == names[-1] and len(names) > 1
        shown = length_text(row.T) if row.variant == names[0] else ""
        table.add_row(shown, *_cells(row, weights[row.variant]), end_section=is_last)
    show(table)
    for line in _legend(found):
        say(line, "  ", first="")


def _cells(row: Row, weights: int) -> list[str]:
    time_ms = UNKNOWN if row.decode_time_s is None else digits(row.decode_time_s * 1e3)
    mark = "*" if row.decode_binds == "compute" else ""
    return [
        row.variant,
        digits(weights / 1e6),
        digits(row.prefill_flop_per_token / 1e9),
        digits(row.decode_flop_per_token / 1e9),
        digits(row.cache_bytes / 1e9),
        time_ms + mark,
        UNKNOWN if row.sequences is None else f"{row.sequences:,}",
        UNKNOWN if row.devices is None else f"{row.devices:,}",
    ]


def _legend(found: Comparison) -> list[str]:
    setting = found.setting
    rates, given = setting.rates, setting.model_weight_bytes
    lines = ["FLOP: projections and core; prefill: mean over the T tokens; decode: sees all T."]
    weights = "the attention's weights" if given is None else f"{gigabytes(given)} of weights"
    if rates is None:
        lines.append(f"ms a token: {NO_RATES}.")
    else:
        where = _bandwidth(rates)
        lines.append(f"ms a token: one sequence; {weights} and the cache read once by {where}.")
        if any(row.decode_binds == "compute" for row in found.rows):
            lines.append("* the dtype's FLOP/s bind, not memory.")
        if setting.dtype not in rates.flop_per_s:
            lines.append(f"No {setting.dtype} FLOP/s are known there: memory alone bounds it.")
    if setting.memory_bytes is None:
        lines.append("sequences, devices: memory unknown; give --device or --memory-gb.")
    else:
        lines.append(
            f"sequences: caches that fit into {gigabytes(setting.memory_bytes)} beside {weights}. "
            f"devices for {setting.requests}: whose memory together holds the weights once and "
            f"{setting.requests} caches; a kv head or latent that several must copy is not counted."
        )
    return lines


def _bandwidth(rates: DeviceRates) -> str:
    how = "measured" if rates.is_measured else "datasheet"
    return f"{rates.name} at {digits(rates.bytes_per_s / 1e9)} GB/s ({how})"

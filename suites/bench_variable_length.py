"""Variable lengths: what does padding cost against packing, as the lengths of a batch spread?

The same tokens in the same number of sequences, from all equally long to some very long ones: the
lengths fall with their rank r as 1/r^exponent (Zipf at 1). Padded to the longest, a batch computes
what nobody asked for; packed, it does not, but needs a kernel that knows where a sequence ends, or
a call for each. FLOP and bytes are those of the real tokens for all: a padded row's % of bound
shows the waste. Padding inside the clock copies q, k, v and the output once each.
"""

from impls.interface.problem import Problem
from impls.interface.sequence_lengths import zipf
from suites.session.sweep import Series

AXIS = "variable_length"
PASSES = ("forward",)
BUDGETS = ("default", "full")
CPU_DTYPES = ("float32",)
# Equal lengths, Zipf's, and what lies between and beyond.
EXPONENTS = (0.0, 1.0, 0.5, 0.25, 1.5)
PACKED = ("naive", "chunked", "sdpa_flash", "flex")
PADDED = ("naive_padded", "sdpa_padded")


def series(device: str, dtype: str) -> list[Series]:
    """One batch at five spreads of its lengths, full, and causal at the two that tell most."""
    is_cpu = device == "cpu"
    count, tokens, H, d_h = (16, 2048, 4, 64) if is_cpu else (32, 32768, 16, 128)
    batches = tuple(
        Problem.of_lengths(zipf(count, tokens, exponent), H=H, d_h=d_h, dtype=dtype)
        for exponent in EXPONENTS
    )
    causal = tuple(batch.with_(causal=True) for batch in batches)
    measured = (*PACKED, *PADDED) if is_cpu else None
    return [
        # One look each: it is the ratios of several that are asked for, not the last per cent.
        Series("filled, full", batches, 5, None, measured, is_looked_at_again=False),
        Series("filled, causal", causal[:2] if is_cpu else causal, 5, None, measured, False),
    ]


def bench_variable_length(cell, measure):
    """Measure one cell."""
    measure(cell)

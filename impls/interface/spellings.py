"""What people also write for a dtype and for a size: bf16 and 4k. No torch here."""

from __future__ import annotations

import re

# As Triton and the kernels' authors have them.
SHORT_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
_FULL_DTYPES = {short: full for full, short in SHORT_DTYPES.items()}
_STEPS = {"": 1, "k": 2**10, "m": 2**20}


def full_dtype(text: str) -> str:
    """PyTorch's name of a dtype that is written short; any other text as it is.

    >>> full_dtype("bf16"), full_dtype("float32"), full_dtype("int8")
    ('bfloat16', 'float32', 'int8')
    """
    return _FULL_DTYPES.get(text, text)


def whole_number(text: str) -> int | None:
    """The size that is written "4096", "4k" (k = 1024) or "2M" (1024²); None where none is.

    >>> whole_number("4k"), whole_number("2M"), whole_number("1500"), whole_number("4.5k")
    (4096, 2097152, 1500, None)
    """
    written = re.fullmatch(r"(\d+)([km]?)", text.strip().lower())
    return int(written[1]) * _STEPS[written[2]] if written else None

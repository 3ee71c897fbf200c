"""The attention of published models as sizes, from `models.csv`, each row with its source."""

from __future__ import annotations

import csv
import difflib
import functools
from dataclasses import dataclass
from pathlib import Path

from impls.interface.layer_shape import Latent, LayerShape, ModelShape

TABLE = Path(__file__).with_name("models.csv")


@dataclass(frozen=True)
class Model:
    """A model's attention layers, the length it is used at, and who says so.

    Attributes:
        note: what the sizes leave out; empty where they say all.
    """

    name: str
    shape: ModelShape
    typical_T: int
    source: str
    url: str = ""
    note: str = ""


def model(name: str) -> Model:
    """The model of this name, in whatever case.

    >>> model("llama-2-70b").shape.layer.variant
    'GQA-8'

    Raises:
        ValueError: there is none; the message offers close names and lists all.
    """
    known = {one.lower(): one for one in models()}
    if name.lower() not in known:
        close = [known[n] for n in difflib.get_close_matches(name.lower(), known, n=3)]
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise ValueError(f'no model "{name}": {hint}known: {", ".join(models())}')
    return models()[known[name.lower()]]


@functools.cache
def models() -> dict[str, Model]:
    """Every model of the table by name, in its order."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [_model(record) for record in csv.DictReader(file, strict=True)]
    return {one.name: one for one in rows}


def _model(text: dict[str, str]) -> Model:
    def size(column: str) -> int | None:
        return int(text[column]) if text[column] else None

    d_c, d_R, d_v = size("d_c"), size("d_R"), size("d_v")
    latent = None
    if d_c is not None and d_R is not None and d_v is not None:
        latent = Latent(d_c=d_c, d_R=d_R, d_v=d_v, d_c_q=size("d_c_q"))
    layer = LayerShape(
        d_model=int(text["d_model"]),
        H=int(text["H"]),
        H_kv=int(text["H_kv"]),
        d_h=int(text["d_h"]),
        latent=latent,
        is_causal={"causal": True, "full": False}[text["attends"]],
    )
    return Model(
        name=text["model"],
        shape=ModelShape(layer, int(text["L"]), size("window"), size("L_window") or 0),
        typical_T=int(text["typical_T"]),
        source=text["source"],
        url=text["url"],
        note=text["note"],
    )

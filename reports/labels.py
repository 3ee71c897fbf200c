"""Direct labels: where the name of a line goes so that it covers neither data nor other names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Transform

Box = tuple[float, float, float, float]
Spot = tuple[float, float, str, str]

_AROUND = (
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (1, 1, "left", "bottom"),
    (1, -1, "left", "top"),
    (-1, 1, "right", "bottom"),
    (-1, -1, "right", "top"),
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
)


@dataclass
class Board:
    """One axes' free space in pixels: `boxes` are letters, `marks` data, `strokes` lines.

    Limits and size of the axes must be final before the first label is placed.
    """

    axes: Axes
    boxes: list[Box] = field(default_factory=list)
    marks: list[Box] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    strokes: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def _dpi(self) -> float:
        return self.axes.figure.dpi

    @property
    def _inches(self) -> Transform:
        figure = self.axes.get_figure(root=True)
        assert figure is not None
        return figure.dpi_scale_trans

    def pixels(self, x: float, y: float) -> tuple[float, float]:
        """Data coordinates as pixels."""
        px, py = self.axes.transData.transform((x, y))
        return float(px), float(py)

    def add_mark(self, x: float, y: float, radius: float, owner: str = "") -> None:
        """Keep letters off a marker of `owner`; `radius` in pixels."""
        self.owners.append(owner)
        px, py = self.pixels(x, y)
        self.marks.append((px - radius, py - radius, px + radius, py + radius))

    def add_stroke(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Make letters avoid a line, given by its corners in data coordinates."""
        corners = [self.pixels(x, y) for x, y in zip(xs, ys, strict=True)]
        for (x0, y0), (x1, y1) in itertools.pairwise(corners):
            steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / 4))
            dots = np.linspace((x0, y0), (x1, y1), steps + 1)
            self.strokes = np.concatenate([self.strokes, dots])

    def around(self, anchors: Iterable[tuple[float, float]], gaps: Sequence[float]) -> list[Spot]:
        """Spots near the anchors (data coordinates), the nearest ring of all of them first."""
        centres = [self.pixels(x, y) for x, y in anchors]
        return [
            (x + dx * gap, y + dy * gap, ha, va)
            for gap in gaps
            for x, y in centres
            for dx, dy, ha, va in _AROUND
        ]

    def put(
        self,
        text: str,
        spots: Sequence[Spot],
        anchor: tuple[float, float] | None = None,
        tail: str = "",
        owner: str = "",
        **look: Any,
    ) -> Text:
        """Write `text` at the best of `spots`, else at the free place nearest to the first.

        `anchor`: where a thin leader line ends when the label had to move away from its data.
        `tail`: smaller plain words that follow the text. `owner`: whose marks it should be nearest.
        """
        # Places are kept in inches: pixels would move when a figure is saved at another dpi.
        look = {"gid": "label"} | look
        label = self.axes.text(0, 0, text, transform=self._inches, **look)
        width, height = _size(label)
        text_width, after = width, None
        if tail:
            after = self.axes.text(0, 0, tail, transform=self._inches, **look)
            after.set(fontsize=7.5, fontweight="normal", ha="left", va="baseline")
            width += _TAIL_GAP + _size(after)[0]

        def cost(choice: tuple[int, Spot]) -> float:
            box = _box(choice[1], width, height)
            return self._cost(box) + self._strangeness(box, owner) + 0.25 * choice[0]

        best = min(enumerate(spots), key=cost)
        spot = best[1]
        if cost(best) >= _COVERS:
            spot = min(
                self._everywhere(width, height),
                key=lambda s: self._cost(_box(s, width, height)) + _distance(s, spots[0]) / 4,
            )
            if anchor is not None:
                self._lead(_box(spot, width, height), anchor, look)
        box = _box(spot, width, height)
        label.set(ha="left", va="bottom")
        label.set_position((box[0] / self._dpi, box[1] / self._dpi))
        if after is not None:
            after.set(va="bottom")
            after.set_position(((box[0] + text_width + _TAIL_GAP) / self._dpi, box[1] / self._dpi))
        self.boxes.append(box)
        for part in (label, after):
            if part is not None:
                _stand_out(part)
        if owner:
            self._lead_among_others(box, owner, look)
        return label

    def along(
        self, text: str, start: tuple[float, float], angle: float, length: float, **look: Any
    ) -> Text | None:
        """Write `text` along a line (pixels, degrees) where it covers least; None if it is longer.

        The letters stand on the line or hang below it.
        """
        label = self.axes.text(0, 0, text, transform=self._inches, gid="label", **look)
        width, height = _size(label)
        if width + 10 > length:
            label.remove()
            return None
        dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        places: list[tuple[float, float, float, list[Box]]] = []
        half = height / 2
        for above in (3.0, -height - 3.0):
            for begin in (0.5 * (length - width), length - width - 5, 5.0):
                x, y = start[0] + dx * begin - above * dy, start[1] + dy * begin + above * dx
                # A slanted text as a chain of boxes: its bounding box would claim far too much.
                steps = max(1, int(width / 6))
                chain = [
                    (cx - half, cy - half, cx + half, cy + half)
                    for i in range(steps + 1)
                    for cx in [x + dx * width * i / steps - dy * half]
                    for cy in [y + dy * width * i / steps + dx * half]
                ]
                places.append((sum(self._cost(box) for box in chain), x, y, chain))
        _, x, y, chain = min(places, key=lambda place: place[0])
        label.set(rotation=angle, rotation_mode="anchor", ha="left", va="bottom")
        label.set_position((x / self._dpi, y / self._dpi))
        self.boxes += chain
        _stand_out(label)
        return label

    def _cost(self, box: Box) -> float:
        x0, y0, x1, y1 = box
        area = self.axes.bbox
        outside = max(0, area.x0 + 4 - x0, x1 - area.x1 + 4) + max(0, area.y0 - y0, y1 - area.y1)
        cost = 0.0 if outside <= 0 else 4 * _COVERS + 10 * outside
        cost += sum(2 * _COVERS for other in self.boxes if _overlap(_grown(box, 3), other))
        cost += sum(_COVERS for other in self.marks if _overlap(_grown(box, 4), other))
        x, y = self.strokes[:, 0], self.strokes[:, 1]
        crossed = int(np.sum((x0 - 1 < x) & (x < x1 + 1) & (y0 - 1 < y) & (y < y1 + 1)))
        return cost + min(4.0 * crossed, _COVERS - 1)

    def _strangeness(self, box: Box, owner: str) -> float:
        """A label nearer to another's marks than to its owner's would be read as theirs."""
        if not owner:
            return 0.0
        own = [_gap(box, m) for m, o in zip(self.marks, self.owners, strict=True) if o == owner]
        others = [_gap(box, m) for m, o in zip(self.marks, self.owners, strict=True) if o != owner]
        return _COVERS / 3 if own and others and min(others) < min(own) else 0.0

    def _lead_among_others(self, box: Box, owner: str, look: dict[str, Any]) -> None:
        """A leader to the owner's nearest mark, where another's is about as near."""
        marks = list(zip(self.marks, self.owners, strict=True))
        own = [(_gap(box, m), m) for m, o in marks if o == owner]
        others = [_gap(box, m) for m, o in marks if o not in (owner, "")]
        if own and others and min(others) < min(own)[0] + _CLEAR:
            x0, y0, x1, y1 = min(own)[1]
            self._lead(box, ((x0 + x1) / 2, (y0 + y1) / 2), look)

    def _everywhere(self, width: float, height: float) -> list[Spot]:
        area = self.axes.bbox
        columns = max(1, int((area.width - width) // 12))
        rows = max(1, int((area.height - height) // 8))
        return [
            (area.x0 + 2 + 12 * i, area.y0 + 2 + 8 * j, "left", "bottom")
            for i in range(columns)
            for j in range(rows)
        ]

    def _lead(self, box: Box, anchor: tuple[float, float], look: dict[str, Any]) -> None:
        x0, y0, x1, y1 = box
        end_x, end_y = min(max(anchor[0], x0), x1), min(max(anchor[1], y0), y1)
        xs = [anchor[0] / self._dpi, end_x / self._dpi]
        ys = [anchor[1] / self._dpi, end_y / self._dpi]
        line = self.axes.plot(xs, ys, transform=self._inches, linewidth=0.6, alpha=0.7)
        line[0].set(color=look.get("color", "black"))
        # Hidden with its label; a gid that several parts have is numbered when it is written.
        line[0].set_gid(look["gid"])


_COVERS = 200.0
_CLEAR = 16.0  # pixels that another's marks must be farther than a label's own
_TAIL_GAP = 5.0


def _stand_out(label: Text) -> None:
    """Keep lines from striking the letters through: they are drawn above, on paper."""
    label.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5})
    label.set_zorder(5)


def _size(label: Text) -> tuple[float, float]:
    figure = label.figure
    assert figure is not None
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    extent = label.get_window_extent(canvas.get_renderer())
    return float(extent.width), float(extent.height)


def _box(spot: Spot, width: float, height: float) -> Box:
    x, y, ha, va = spot
    x0 = x - {"left": 0.0, "center": width / 2, "right": width}[ha]
    y0 = y - {"bottom": 0.0, "center": height / 2, "top": height}[va]
    return x0, y0, x0 + width, y0 + height


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _grown(box: Box, by: float) -> Box:
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def _gap(a: Box, b: Box) -> float:
    return max(a[0] - b[2], b[0] - a[2], 0) + max(a[1] - b[3], b[1] - a[3], 0)


def _distance(a: Spot, b: Spot) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least `gap` apart, in the order and as near as can be to those `wanted`.

    When there is not room for all between `low` and `high` they are spaced evenly.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    # Pool neighbours that are too near into blocks, each centred on its members' wishes.
    blocks: list[list[int]] = []
    starts: list[float] = []
    for i in order:
        blocks.append([i])
        starts.append(_start([wanted[i]], gap, low, high))
        while len(blocks) > 1 and starts[-2] + gap * len(blocks[-2]) > starts[-1]:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
            starts[-2:] = [_start([wanted[j] for j in blocks[-1]], gap, low, high)]
    placed = [0.0] * len(wanted)
    for block, start in zip(blocks, starts, strict=True):
        for rank, i in enumerate(block):
            placed[i] = start + rank * gap
    return placed


def _start(wishes: Sequence[float], gap: float, low: float, high: float) -> float:
    """Where a block of labels begins so that they are nearest to their wishes on average."""
    start = sum(wish - rank * gap for rank, wish in enumerate(wishes)) / len(wishes)
    return min(max(start, low), high - gap * (len(wishes) - 1))

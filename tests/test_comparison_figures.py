"""Speed-up, who wins where, error against speed and the samples' spread: what is drawn is so."""

from __future__ import annotations

import re

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports.figures import distribution, error_speed, speed_up, winners
from reports.figures.distribution import strip_of
from reports.figures.error_speed import times_naive
from reports.figures.winners import contests
from results.store import load_run
from tests.drawn_run import drawn, marks, rendered, texts, title_of
from tests.fake_cells import check_record, timing_record
from tests.fake_run import cell

P = Problem.parse("T=512,H=8,d_h=64")
FIGURES = (speed_up, winners, error_speed, distribution)


@pytest.fixture
def run_of(run_directory):
    days = iter(range(1, 29))

    def make(*records: dict):
        return load_run(
            run_directory(records=list(records), created=f"202611{next(days):02}T000000Z")
        )

    return make


def at(T: int, d_h: int = 64, **changes) -> Problem:
    return P.with_(T_q=T, T_kv=T, d_h=d_h, d_v=d_h, **changes)


def heights(figure, gid: str) -> list[float]:
    """The y values of the lines of that id, one after the other."""
    lines = [line for axes in figure.axes for line in axes.lines if (line.get_gid() or "") == gid]
    return [float(y) for line in lines for y in np.asarray(line.get_ydata())]


def test_names_beside_the_strips_are_whole(run_of):
    """Two kernels of one library were the same 22 letters, and the first were off the page."""
    names = [
        f"attention_of_a_library_with_a_long_name_and_of_its_last_variant_for_all_{n}"
        for n in (1, 2)
    ]
    figure = drawn(distribution, run_of(*(cell(name, at(2048), 0.01) for name in names)))
    figure.canvas.draw()
    written = [text for text in figure.axes[0].texts if "attention_of" in text.get_text()]
    assert sorted(text.get_text().split()[0] for text in written) == names
    assert all(text.get_window_extent().x0 > 0 for text in written)


def test_speed_ups_are_of_comparable_rows_of_one_launch(run_of):
    """0.02 / 0.01 and 0.08 / 0.02; the flagged row and the wrong one have no ratio."""
    run = run_of(
        *(cell("naive", at(512), 0.02), cell("naive", at(1024), 0.08)),
        *(cell("flex", at(512), 0.01), cell("flex", at(1024), 0.04)),
        cell("odd", at(512), 0.001, flags=["unsteady"]),
        cell("bad", at(512), 0.001, status="wrong", check=check_record(ok=False)),
    )
    figure = drawn(speed_up, run)
    assert heights(figure, "part-of-flex;")[:2] == [2.0, 2.0]
    assert not heights(figure, "part-of-odd;") and not heights(figure, "whiskers-of-flex;")
    assert marks(rendered(speed_up, run).svg) == 2
    said = " ".join(texts(figure))
    assert "One launch, so that no ratio has an interval" in said and "1 point without" in said


def test_a_ratio_of_a_line_that_ends_early_is_told_with_its_size(run_of):
    run = run_of(
        *(cell("naive", at(T), 0.08) for T in (512, 1024)),
        *(cell("flex", at(512), 0.04), cell("flex", at(1024), 0.04, flags=["unsteady"])),
        *(cell("late", at(T), 0.16) for T in (512, 1024)),
    )
    said = texts(drawn(speed_up, run))
    assert "flex  2.00 × at 512" in said and "late  0.500 ×" in said


def test_several_launches_draw_the_range_of_their_ratios(run_of):
    """Launch by launch: 2, 2.5 and 4 times as fast, never the ratio of medians."""
    times = {"naive": (0.020, 0.030, 0.040), "flex": (0.010, 0.012, 0.010)}
    rows = [
        cell(name, P, time_s, launch=i)
        for name, own in times.items()
        for i, time_s in enumerate(own, start=1)
    ]
    figure = drawn(speed_up, run_of(*rows))
    bar = heights(figure, "whiskers-of-flex;")
    assert bar[:2] == pytest.approx([2.0, 4.0])
    assert heights(figure, "part-of-flex;")[0] == pytest.approx(2.5)
    assert "Median of the ratios of 3 launches" in " ".join(texts(figure))


def test_without_a_baseline_there_is_no_speed_up(run_of):
    assert speed_up.draw(run_of(cell("flex", P, 0.01), cell("late", P, 0.02))) is None
    assert speed_up.draw(run_of(cell("naive", P, 0.01))) is None


def test_the_winner_is_the_fastest_comparable_row_of_one_problem(run_of):
    run = run_of(
        *(cell("naive", at(128), 0.010), cell("flex", at(128), 0.005)),
        *(cell("naive", at(256), 0.010), cell("flex", at(256), 0.0101)),
        *(cell("naive", at(128, 32), 0.020), cell("flex", at(128, 32), 0.030)),
        cell("lucky", at(128), 0.001, flags=["contended"]),
        # More heads are another problem: faster there is not faster here.
        cell("other", at(128).with_(H=1, H_kv=1), 0.0009),
    )
    (grid,) = contests(run).values()
    assert {place: c.cells[0].implementation for place, c in grid.items()} == {
        (128, 64): "flex", (256, 64): "naive", (128, 32): "naive",
    }  # fmt: skip
    assert grid[128, 64].margin == pytest.approx(2.0) and grid[128, 32].margin == 1.5
    said = texts(drawn(winners, run))
    assert "2.00 × naive" in said and "1.50 × flex" in said and "level" in said
    assert "lucky" not in " ".join(said)


def test_who_was_wrong_anywhere_wins_nowhere(run_of):
    bad = cell("quick", at(64), 0.001, status="wrong", check=check_record(ok=False))
    rows = [
        cell(name, at(T), t) for T in (128, 256) for name, t in (("naive", 0.02), ("flex", 0.03))
    ]
    run = run_of(bad, *rows, *(cell("quick", at(T), 0.005) for T in (128, 256)))
    (grid,) = contests(run).values()
    assert {c.cells[0].implementation for c in grid.values()} == {"naive"}


def test_titles_of_narrow_maps_do_not_touch(run_of):
    """A map of one length is narrower than its title was: the next stood in it."""
    rows = [
        cell(name, at(128, d_h, causal=causal), time_s, **{"pass": "forward_backward"})
        for name, time_s in (("naive", 0.02), ("flex", 0.03))
        for d_h in (32, 64)
        for causal in (False, True)
    ]
    figure = drawn(winners, run_of(*rows))
    figure.canvas.draw()
    first, second = (title_of(axes).get_window_extent() for axes in figure.axes)
    assert first.y0 == second.y0 and first.x1 < second.x0


def test_one_place_or_one_implementation_is_no_map(run_of):
    assert winners.draw(run_of(cell("naive", P, 0.01), cell("flex", P, 0.02))) is None
    assert winners.draw(run_of(cell("naive", P, 0.01), cell("naive", at(64), 0.02))) is None


def errors(**outputs: tuple[float | None, float | None]) -> dict:
    record = check_record()
    (own,) = record["outputs"].values()
    record["outputs"] = {
        name: own | {"max_error": error, "naive_max_error": naive}
        for name, (error, naive) in outputs.items()
    }
    return record


def test_the_error_is_the_worst_output_beside_its_own_plain_one(run_of):
    """Of dq: 4 times the plain formula's dq, though out has the larger error."""
    check = errors(out=(2e-6, 4e-6), dq=(8e-7, 2e-7))
    run = run_of(cell("naive", P, 0.01, check=check))
    assert times_naive(run.cells[0]) == pytest.approx(4.0)
    figure = drawn(error_speed, run)
    points = [line for line in figure.axes[0].lines if "point" in (line.get_gid() or "")]
    (x,), (y,) = (np.asarray(points[0].get_xdata()), np.asarray(points[0].get_ydata()))
    flop = 2 * 8 * 512**2 * 128
    assert (x, y) == (pytest.approx(100 * flop / 100e9 / 0.01), pytest.approx(4.0))


def test_an_error_of_zero_is_counted_and_an_unknown_one_left_out(run_of):
    run = run_of(
        cell("exact", P, 0.01, check=errors(out=(0.0, 2e-7))),
        cell("usual", P, 0.01, check=errors(out=(1e-7, 2e-7))),
        cell("alone", P, 0.01, check=errors(out=(1e-7, None))),
    )
    assert [times_naive(c) for c in run.cells] == [0.0, 0.5, None]
    assert "1 point without any error" in " ".join(texts(drawn(error_speed, run)))
    assert marks(rendered(error_speed, run).svg) == 1
    assert error_speed.draw(run_of(cell("alone", P, 0.01, check=errors(out=(1e-7, None))))) is None


def test_a_strip_has_the_samples_quantiles_in_per_cent_of_the_median(run_of):
    samples = [0.01 * (1 + i / 100) for i in range(-10, 11)]
    run = run_of(cell("naive", P, 0.01, timing=timing_record(0.01) | {"samples_s": samples}))
    strip = strip_of(run.cells[0])
    assert strip is not None
    assert (strip.fastest, strip.slowest) == (pytest.approx(-10), pytest.approx(10))
    assert (strip.quartile, strip.upper_quartile) == (pytest.approx(-5), pytest.approx(5))
    assert (strip.decile, strip.upper_decile) == (pytest.approx(-8), pytest.approx(8))


def test_the_widest_strips_are_drawn_and_the_rest_counted(run_of):
    def timed(time_s: float, spread: float) -> dict:
        return timing_record(time_s) | {
            "samples_s": [time_s * (1 + spread * i) for i in range(-3, 4)]
        }

    rows = [cell("naive", at(T), 0.01, timing=timed(0.01, T * 1e-5)) for T in range(100, 150)]
    rows.append(cell("few", P, 0.01, timing=timing_record(0.01) | {"samples_s": [0.01] * 4}))
    figure = drawn(distribution, run_of(*rows))
    names = [t for t in texts(figure) if t.startswith("naive T ")]
    assert len(names) == 36 and names[0].startswith("naive T 149")
    assert "14 narrower cells not drawn" in " ".join(texts(figure))


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.__name__.rpartition(".")[2])
def test_five_fifty_and_five_hundred_cells_fit_and_give_the_same_bytes(run_of, figure):
    for names, lengths in ((1, 5), (5, 5), (12, 21)):
        run = run_of(
            *(
                cell(
                    f"impl_{i}" if i else "naive",
                    at(64 * (n + 1), causal=causal),
                    1e-3 * (n + 1) * (3 + i),
                )
                for i in range(names + 1)
                for n in range(lengths)
                for causal in (False, True)
            )
        )
        found = rendered(figure, run)
        assert found == rendered(figure, run) and len(found.svg) < 1_200_000
        picture = drawn(figure, run)
        width, height = picture.get_size_inches()
        assert width < 30 and height < 30
        picture.canvas.draw()
        texts_out = [
            text.get_text()
            for axes in picture.axes
            for text in axes.texts
            if (text.get_gid() or "").startswith("label")
            and not (0 <= text.get_window_extent().x0 < text.get_window_extent().x1 <= 100 * width)
        ]
        assert texts_out == []


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.__name__.rpartition(".")[2])
def test_every_part_bears_its_owners_name(run_of, figure):
    """So that a page can hide it: nothing of `flex` but its parts carries its name."""
    rows = [cell(n, at(T), t * T) for T in (128, 256) for n, t in (("naive", 2e-5), ("flex", 1e-5))]
    svg = rendered(figure, run_of(*rows)).svg
    written = re.findall(r'<g id="([^"]+)">\s*<text[^>]*>[^<]*flex', svg)
    assert all("-of-flex;" in owner or "-of-naive;" in owner for owner in written) and svg

"""Rows of a run as a LaTeX table for a paper, with booktabs' rules."""

from __future__ import annotations

from collections.abc import Sequence

from reports.columns import NOTHING, Column, columns, shared_parts
from reports.page import ceiling_origin, device_name
from reports.rows import in_reading_order
from results.interval import MEANING
from results.run import Run
from results.schema import Cell

_KEYS = ("implementation", "problem", "time", "half_width", "flop_per_s")
_KEYS += ("times_baseline", "percent_of_bound")
MOST_ROWS = 40
"""So many stand on a page of an article with their caption."""
_BEYOND_ASCII = "% A name has letters that pdflatex may lack: set it with lualatex or xelatex."
_ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "×": r"$\times$", "±": r"$\pm$", "–": "--", "µ": r"$\mu$", "·": r"$\cdot$", "−": "$-$",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "→": r"$\rightarrow$",
    "≤": r"$\le$", "≥": r"$\ge$", "…": r"\ldots{}",
}  # fmt: skip


def latex_table(run: Run, cells: Sequence[Cell]) -> str:
    """The cells as a `table` with its caption; needs `\\usepackage{booktabs}` and nothing else.

    More than a page holds are a `longtable`, which goes on over pages and says what it needs. The
    caption has what a reader needs to believe a number: device, clock, dtype, commit, launches and
    the ceilings. Rows in doubt bear their flags; a wrong one has no rate.
    """
    found = columns(run)
    shown = [found[key] for key in _KEYS if key in found]
    # Rows of one problem that only these tell apart.
    apart = [found[key] for key in ("pass", "clock", "launch") if key in found]
    shown[2:2] = [column for column in apart if len({column.show(cell) for cell in cells}) > 1]
    flags = [cell for cell in cells if cell.flags or cell.status != "ok"]
    if flags:
        shown.append(found["flags"])
    spec = "".join("r" if column.is_number else "l" for column in shown)
    heads, body = _row([column.header for column in shown]), _body(in_reading_order(cells), shown)
    made = _long if len(cells) > MOST_ROWS else _short
    text = "\n".join(made(latex(caption(run, cells)), spec, heads, body)) + "\n"
    return text if text.isascii() else f"{_BEYOND_ASCII}\n{text}"


def _short(told: str, spec: str, heads: str, body: Sequence[str]) -> list[str]:
    """A float, which stands on one page."""
    return [
        "% Made by python -m reports export latex; needs \\usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{told}}}",
        rf"\begin{{tabular}}{{{spec}}}",
        *(r"\toprule", heads, r"\midrule"),
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def _long(told: str, spec: str, heads: str, body: Sequence[str]) -> list[str]:
    """A table over pages, its heads on each; the caption stands once."""
    going_on = rf"\multicolumn{{{len(spec)}}}{{r}}{{continued}} \\"
    return [
        "% Made by python -m reports export latex; needs \\usepackage{booktabs,longtable} and",
        f"% a page of one column, as more than {MOST_ROWS} rows go on; fewer: --cells WORDS.",
        rf"\begin{{longtable}}{{{spec}}}",
        rf"\caption{{{told}}} \\",
        *(r"\toprule", heads, r"\midrule", r"\endfirsthead"),
        *(r"\toprule", heads, r"\midrule", r"\endhead"),
        *(r"\midrule", going_on, r"\endfoot"),
        *(r"\bottomrule", r"\endlastfoot"),
        *body,
        r"\end{longtable}",
    ]


def caption(run: Run, cells: Sequence[Cell]) -> str:
    """One sentence of what was measured where, one of how, one of the ceilings."""
    header = run.header
    clocks = ", ".join(sorted({f"{cell.clock} clock, {cell.cache} cache" for cell in cells}))
    passes = ", ".join(sorted({cell.pass_.replace("_", " + ") for cell in cells}))
    launches = "one launch" if run.launches == 1 else f"{run.launches} launches"
    dirty = " with uncommitted changes" if header.dirty else ""
    return (
        f"Attention, {passes}, on {device_name(run)} ({shared_parts(cells)}): run {run.name}, "
        f"commit {(header.commit or 'unknown')[:12]}{dirty}, {launches}, {clocks}. {MEANING}. "
        f"% of bound: of the least time the ceilings allow, {ceiling_origin(header.ceilings)}."
    )


def latex(text: str) -> str:
    """The text with what LaTeX would take for itself escaped."""
    return "".join(_ESCAPED.get(letter, letter) for letter in text)


def _body(cells: Sequence[Cell], shown: Sequence[Column]) -> list[str]:
    """A line a cell; some room where the problem changes, or the pass."""
    lines: list[str] = []
    for i, cell in enumerate(cells):
        before = cells[i - 1]
        if i and (before.problem, before.pass_) != (cell.problem, cell.pass_):
            lines.append(r"\addlinespace")
        texts = [column.show(cell) for column in shown]
        lines.append(_row(["" if text == NOTHING else text for text in texts]))
    return lines


def _row(texts: Sequence[str]) -> str:
    return " & ".join(latex(text) for text in texts) + r" \\"

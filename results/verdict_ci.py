"""A comparison for CI: JUnit, one test case a cell, GitHub's annotations and OpenMetrics."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from results.verdict import VERDICTS, Comparison, Verdict
from results.verdict_text import conclusion, sentence

# GitHub shows ten annotations of a kind and step.
MOST_LINES = 10
_FIGURES = (
    *("ratio", "low", "high", "p", "floor", "smallest_seen"),
    *("base_s", "head_s", "base_launches", "head_launches", "tier"),
)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(comparison: Comparison, code: int) -> str:
    """JUnit XML: failure = regressed or missing, error = broken, skipped = could not be told.

    What a waiver or the tier lets pass is skipped, with the reason. A comparison that was not made
    is one test case with an error: no file without a case that tells.
    """
    suite = ElementTree.Element("testsuite", name="attnbench gate")
    for one in comparison.verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name=_clean(one.name))
        properties = ElementTree.SubElement(case, "properties")
        for name in ("verdict", *_FIGURES):
            value = getattr(one, name)
            if value is not None:
                ElementTree.SubElement(properties, "property", name=name, value=str(value))
        if outcome := _outcome(one):
            ElementTree.SubElement(case, outcome, message=_clean(sentence(one)))
    last = conclusion(comparison, code)
    if comparison.is_suite_slower or comparison.compared == 0:
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name="the suite")
        # On the first day of a machine nothing was compared, and all is well.
        nothing = "error" if code else "skipped"
        outcome = "failure" if comparison.is_suite_slower else nothing
        ElementTree.SubElement(case, outcome, message=_clean(last))
    counted = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, tag in counted.items():
        suite.set(name, str(sum(1 for _ in suite.iter(tag))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def github_lines(comparison: Comparison, code: int) -> list[str]:
    """At most ten lines, the last of which counts those left out.

    `::error`, one a failing cell; of a gate that passes `::warning`, one a cell that seemed slower
    and was not confirmed.
    """
    if code == 0:
        unsure = [one for one in comparison.verdicts if one.is_left_unconfirmed]
        return _at_most("warning", [_line("warning", "not confirmed", sentence(x)) for x in unsure])
    failing = [one for one in comparison.verdicts if one.fails]
    lines = [_line("error", one.verdict, sentence(one)) for one in failing]
    if comparison.is_suite_slower or not lines:
        lines.insert(0, _line("error", "gate", conclusion(comparison, code)))
    return _at_most("error", lines)


def open_metrics(comparison: Comparison) -> str:
    """Text of OpenMetrics 1.0: cells by verdict, and of each cell the ratio and head's time.

    What is not known has no line.
    """
    lines = ["# TYPE attnbench_cells gauge"]
    for verdict in VERDICTS:
        n = comparison.counts.get(verdict, 0)
        lines.append(f"attnbench_cells{_labels(verdict=verdict)} {n}")
    figures = (("attnbench_ratio", "ratio"), ("attnbench_time_seconds", "head_s"))
    for metric, field in figures:
        lines.append(f"# TYPE {metric} gauge")
        for one in sorted(comparison.verdicts, key=lambda one: one.name):
            value = getattr(one, field)
            if value is not None:
                lines.append(f"{metric}{_labels(cell=one.name)} {value:.6g}")
    return "\n".join([*lines, "# EOF", ""])


def _labels(**named: str) -> str:
    written = []
    for name, text in named.items():
        for mark, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
            text = text.replace(mark, escaped)
        written.append(f'{name}="{text}"')
    return f"{{{','.join(written)}}}"


def _outcome(one: Verdict) -> str | None:
    if one.fails:
        return "error" if one.verdict == "broken" else "failure"
    is_bad = one.verdict in ("regressed", "broken", "missing")
    return "skipped" if is_bad or one.verdict in ("inconclusive", "incomparable") else None


def _at_most(kind: str, lines: list[str]) -> list[str]:
    left = len(lines) - MOST_LINES + 1
    if left <= 1:
        return lines
    return [*lines[: MOST_LINES - 1], _line(kind, "gate", f"and {left} more: see the table")]


def _line(kind: str, title: str, text: str) -> str:
    for mark, written in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(mark, written)
    return f"::{kind} title={title}::{text}"


def _clean(text: str) -> str:
    """What XML 1.0 may hold; a reason may quote any byte a library printed."""
    return _NOT_XML.sub("?", text)

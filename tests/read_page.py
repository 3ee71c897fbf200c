"""A page of a run as tests read it."""

from __future__ import annotations

from html.parser import HTMLParser

from reports.figures import figure_modules, render
from reports.page import page
from results.run import Run

VOID = {"meta", "input", "br", "hr", "img", "link"}
OPTIONAL_END = {"tr", "td", "th", "li", "dt", "dd", "p", "option"}


class Reader(HTMLParser):
    """Collects what tests ask of a page: tags with attributes, texts by tag, ids, references."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL_END:
            self.open.pop()
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if data.strip() and self.open:
            self.texts.append((self.open[-1], data.strip()))

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name))]

    def count(self, tag: str) -> int:
        return sum(1 for name, _ in self.tags if name == tag)


def page_of(run: Run) -> str:
    return page(run, [f for m in figure_modules() if (f := render(m, run)) is not None])

"""What helps a reader along: links between days, terms' cards, where a day stands."""

from __future__ import annotations

import posixpath
from html import escape
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

from markdown.inlinepatterns import InlineProcessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

from evidence.pages import coursemap, glossary
from evidence.pages.mentions import MENTION, mentioned

if TYPE_CHECKING:
    import re

    from markdown import Markdown

    from evidence.pages.course import Course, Day
    from evidence.pages.coursemap import Link
    from evidence.pages.extension import EvidenceExtension


def register(md: Markdown, extension: EvidenceExtension) -> None:
    """Register with a Markdown instance."""
    # Below links and references (160, 170), in whose text no other link may stand.
    md.inlinePatterns.register(_Days(md, extension), "evidence_days", 110)
    # After inline patterns (20), before hosts rewrite links (0).
    md.treeprocessors.register(_Terms(md, extension), "evidence_terms", 18)


class _Days(InlineProcessor):
    """Turns `day 16` into a link to the page of that day, if it has one."""

    ANCESTOR_EXCLUDES = ("a", "h1", "h2", "h3", "h4", "h5", "h6")

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(MENTION.pattern, md)
        self.extension = extension

    def handleMatch(  # type: ignore[override]  # noqa: N802
        self, m: re.Match[str], data: str
    ) -> tuple[Element | None, int | None, int | None]:
        del data
        page = self.extension.rendering
        links = {n: to for n, _ in mentioned(m[0]) if (to := page.day_link(n)) is not None}
        if not links:
            return None, None, None
        element = _link(links[int(m["one"])], m[0]) if m["one"] else _several(m[0], links)
        return element, m.start(0), m.end(0)


def _link(href: str, text: str) -> Element:
    element = Element("a", {"href": href})
    element.text = AtomicString(text)
    return element


def _several(text: str, links: dict[int, str]) -> Element:
    """Return `days 15, 16 and 24` with a link on each number whose day is there."""
    whole, position = Element("span"), 0
    last: Element | None = None
    for number, offset in mentioned(text):
        if number not in links:
            continue
        _append(whole, last, text[position:offset])
        last = SubElement(whole, "a", {"href": links[number]})
        position = offset + len(str(number))
        last.text = AtomicString(text[offset:position])
    _append(whole, last, text[position:])
    return whole


def _append(whole: Element, last: Element | None, text: str) -> None:
    if last is None:
        whole.text = AtomicString(text)
    else:
        last.tail = AtomicString(text)


class _Terms(Treeprocessor):
    """Gives links into the glossary the sentence that their card shows."""

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        page = self.extension.rendering
        for link in root.iter("a"):
            target, _, anchor = link.get("href", "").partition("#")
            if anchor and posixpath.basename(target) == glossary.PAGE:
                sentence = page.terms.get(anchor)
                if sentence is not None:
                    link.set("class", f"{link.get('class', '')} ev-term".strip())
                    link.set("data-term", sentence)


def around(html: str, course: Course, page: str, link: Link) -> str:
    """Return a page's HTML with what stands around a day's text; other pages as they are.

    Args:
        html: The page.
        course: The course.
        page: The page's path, relative to the docs.
        link: Gives the address of an anchor on a page.
    """
    day = course.on(page)
    if day is None:
        return html
    head, title, rest = html.partition("</h1>")
    line = _line(course, day, link)
    return f"{head}{title}\n{line}{rest}{_end(day)}" if title else f"{line}{head}{_end(day)}"


def _line(course: Course, day: Day, link: Link) -> str:
    """Return the line below a day's title: its module, and what it builds on."""
    title = next((m.title for m in course.modules if m.number == day.module), "")
    parts = [f"Day {day.number}"]
    if title:
        text = f"module {day.module}, {escape(title)}"
        home = link(course.page, f"module-{day.module}")
        parts.append(f'<a href="{escape(home)}">{text}</a>')
    if day.needs:
        noun = "day" if len(day.needs) == 1 else "days"
        parts.append(f"builds on {noun} {coursemap.listed(course, day.needs, link)}")
    return f'<p class="ev-day">{" · ".join(parts)}</p>'


def _end(day: Day) -> str:
    """Return what stands at a day's end: a button to mark it as read."""
    return (
        f'<p class="ev-done"><button type="button" class="ev-button" data-read="{day.number}" '
        f'aria-pressed="false">I have read day {day.number}</button></p>'
    )

"""One page while it is being rendered: its directives, looked up, as HTML."""

from __future__ import annotations

import posixpath
import re
from html import escape
from typing import TYPE_CHECKING
from xml.etree.ElementTree import tostring

from evidence.pages import (
    banners,
    builds,
    charts,
    comparison,
    dated,
    devicetabs,
    drawings,
    explorer,
    ids,
    ledger,
    listing,
    nbblock,
    predict,
    reading,
    render,
    shown,
    tables,
    watching,
    wholes,
)
from evidence.pages.nbpage import Part
from evidence.pages.ruled import Ledger, Ruling
from evidence.pages.trace import Trace, watched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from evidence.errors import EvidenceError
    from evidence.model import Program
    from evidence.pages.bindings import Pages
    from evidence.pages.host import Host
    from evidence.pages.shown import Bound, Shown, Source

_ANCHOR = re.compile(r' id="([^"]+)"')


class Rendering:
    """One page while it is being rendered.

    Args:
        bound: The page, looked up.
        pages: All pages, and where they are looked up.
        host: What renders it.
    """

    def __init__(self, bound: Bound, pages: Pages, host: Host) -> None:
        self.bound = bound
        self._pages = pages
        self.late: list[EvidenceError] = []  # what only rendering has shown to be wrong
        self._library = pages.library
        self._host = host
        self._named: set[str] = set()

    @classmethod
    def of(cls, text: str, host: Host, folder: Path) -> Rendering:
        """Look up a page.

        Args:
            text: Its text as the host gives it, with or without front matter.
            host: What renders it.
            folder: Where to look for the project if the page's file is unknown.

        Raises:
            ConfigError: There is no project around the page, or the host would
                keep the page after what it shows has changed.
        """
        pages = builds.pages_for(host, folder if host.path is None else host.path.parent)
        watching.require(host.watched, pages.library.project.config)
        if pages.traces is not None and host.path is not None:
            pages = watched(pages, pages.traces.setdefault(host.path, Trace()))
        return cls(builds.bound(pages, text, host.path), pages, host)

    def item(self, index: int) -> Shown:
        """Return what a directive comes to."""
        return self.bound.shown[index]

    def block(self, index: int) -> str:
        """Return the HTML of a code or output block."""
        return self._announced(self._block(self.item(index)))

    def notebook(self, index: int) -> list[Part]:
        """Return a notebook, piece by piece."""
        found = self.item(index)
        if not isinstance(found, shown.Notebook):
            return [Part(_error(found))]
        own = self._first(ids.output(found.program.name))
        made = nbblock.parts(self._library, self._host, found, self._place, named=own)
        self._announced("".join(part.html for part in made))
        return made

    def claim_id(self, index: int) -> str:
        """Return the anchor of a claim: its number among the page's claims."""
        items = self.bound.page.scan.items[: index + 1]
        return self.announced(ids.claim(sum(item.kind == "claim" for item in items)))

    def claim(self, index: int) -> str:
        """Return the HTML of a claim's folded part."""
        found = self.item(index)
        if isinstance(found, shown.Claim):
            return render.claim_details(found, self._finished)
        return _error(found)

    def announced(self, anchor: str) -> str:
        """Return an anchor, which the host now knows of."""
        self._host.announce([anchor])
        return anchor

    def ruling(self, index: int) -> str:
        """Return the HTML of what stands under a ruling's sentence."""
        found, links = self.item(index), (self._finished, self._home)
        return ledger.details(found, *links) if isinstance(found, Ruling) else _error(found)

    def predict(self, index: int) -> str:
        """Return the HTML of what stands under a question."""
        found = self.item(index)
        if not isinstance(found, shown.Predict):
            return _error(found)
        number = render.number(found.number, self._finished, self._address)
        return predict.asked(found, tostring(number, encoding="unicode"))

    def plot(self, index: int) -> str:
        """Return the HTML of a plot's drawings."""
        found = self.item(index)
        if not isinstance(found, shown.Plot):
            return _error(found)
        cache = self._library.project.root / drawings.FOLDER
        return charts.drawn(found, f"ev~plot~{index + 1}", cache)

    def plot_table(self, index: int) -> str:
        """Return the HTML of a plot's numbers."""
        found = self.item(index)
        return charts.table(found, self._finished) if isinstance(found, shown.Plot) else ""

    def inline(self, index: int) -> Element:
        """Return the element of a number."""
        found = self.item(index)
        if isinstance(found, shown.Number):
            return render.number(found, self._href, self._address)
        if isinstance(found, shown.Sourced):
            return render.sourced(found)
        return render.failed(_message(found))

    def plain(self, index: int) -> str:
        """Return a number as text, for attributes and raw HTML."""
        found = self.item(index)
        text = found.text if isinstance(found, shown.Number | shown.Sourced) else _message(found)
        return escape(text)

    def banner(self) -> str:
        """Return what stands on top of the page if a build would fail on it."""
        late = [str(error) for error in self.late]
        return banners.on_top(self.bound, self._library.project, self._pages.edits, late)

    def dated(self, html: str) -> str:
        """Return the page's HTML with the date of its evidence under the title."""
        return dated.placed(html, self.bound, self._library)

    def line_of(self, text: str) -> int:
        """Return the page's line on which some text stands; the first if unsure."""
        wanted = text.splitlines()[0][:40] if text else ""
        page = self.bound.page
        for number, line in enumerate(page.scan.text.split("\n"), page.first_line):
            if wanted and wanted in line:
                return number
        return page.first_line

    def _block(self, found: Shown) -> str:
        if isinstance(found, shown.Output):
            return self._output(found)
        if isinstance(found, shown.Code):
            return self._code(found)
        if isinstance(found, shown.Diff):
            old, new = self._side(found.old), self._side(found.new)
            return comparison.figure(found, old, new, self._finished)
        if isinstance(found, shown.Overview):
            return tables.html(found, self._pages, self._place)
        return ledger.summary(self.bound.shown) if isinstance(found, Ledger) else _error(found)

    def _announced(self, html: str) -> str:
        self._host.announce(_ANCHOR.findall(html))
        return html

    def _side(self, code: shown.Code) -> comparison.Side:
        return comparison.Side(code, self._library.text(code.program), self._full(code.program))

    def _place(self, page: str, anchor: str) -> str:
        """Return the address of an anchor on a page, or of the page."""
        target = f"{self._to(page)}#{anchor}" if anchor else self._to(page) or "#"
        return self._host.link(target)

    def _output(self, found: shown.Output) -> str:
        state = found.state
        if state.record is None:
            return _error(shown.Failed(state.findings[0].message))
        return devicetabs.output(self._library, found, self._named)

    def _code(self, found: shown.Code) -> str:
        program, settings = found.program, self._library.project.config
        text = self._library.text(program)
        architecture = 90 if 90 in settings.architectures else max(settings.architectures)  # noqa: PLR2004
        link = explorer.link(program, text, settings.nvcc, architecture)
        if found.region is None:
            return wholes.figure(
                self._library,
                self._host,
                program,
                explorer=link,
                link=self._place,
                page=self._shown,
                named=self._first(ids.source(program)),
            )
        full = self._full(program)
        named = self._first(ids.region(program, found.region.name))
        first = self._first(ids.explorer(program))
        return listing.region(
            program, found.region, text=text, full=full, explorer=link, named=named, first=first
        )

    def _full(self, program: Program) -> str | None:
        """Return the link to a program's listing, up to a line's number."""
        home = self._library.source_home(program)
        if home is None:
            return None
        # Hosts check that an anchor exists: ask for that of the first line.
        return self._place(home, f"{self._library.line_anchor(program)}1").removesuffix("1")

    @property
    def terms(self) -> Mapping[str, str]:
        """Return the first sentence of each term of the glossary."""
        return self._library.terms

    def day_link(self, number: int) -> str | None:
        """Return the link to a day's page; None for this page, and if it has none."""
        day = self._library.course.days.get(number)
        return None if day is None or day.page == self._shown else self._to(day.page)

    def around(self, html: str) -> str:
        """Return the page's HTML with what stands around the text of a day."""
        return reading.around(html, self._library.course, self._shown, self._place)

    def _first(self, anchor: str) -> bool:
        """Whether an anchor is not on the page yet; from now on it is."""
        if anchor in self._named:
            return False
        self._named.add(anchor)
        return True

    def _home(self, program: Program) -> str | None:
        """Return the link to where a program's output is shown, or else its source."""
        home, source = self._library.home(program), self._library.source_home(program)
        if home is not None:
            return self._place(home, ids.output(program.name))
        return None if source is None else self._place(source, ids.source(program))

    def _href(self, source: Source) -> str | None:
        program: Program = source.program
        home = self._library.home(program)
        if home is None:
            return None
        return f"{self._to(home)}#{ids.value(program.name, source.value.address)}"

    def _finished(self, source: Source) -> str | None:
        href = self._href(source)
        return None if href is None else self._host.link(href)

    def _address(self, source: Source) -> str | None:
        href = self._href(source)
        return None if href is None else self._host.address(href)

    def _to(self, page: str) -> str:
        """Return the link from this page's file to another's; empty for itself."""
        here = self._shown
        return "" if here == page else posixpath.relpath(page, posixpath.dirname(here) or ".")

    @property
    def _shown(self) -> str:
        """Return this page's file, relative to the docs."""
        return self.bound.page.path.removeprefix(f"{self._library.project.config.docs}/")


def _error(found: Shown) -> str:
    return f'<div class="ev-error">{escape(_message(found))}</div>'


def _message(found: Shown) -> str:
    return found.message if isinstance(found, shown.Failed) else "this cannot stand here"

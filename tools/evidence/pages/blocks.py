"""Our blocks: code, output and claims, as pymdownx.blocks wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

from markdown.util import AtomicString
from pymdownx.blocks.block import Block

from evidence.pages import ids, ledger, marks, predict, render
from evidence.pages.ruled import Ruling
from evidence.pages.shown import Claim, Predict

if TYPE_CHECKING:
    from evidence.pages.rendering import Rendering


class _Shown(Block):  # type: ignore[misc]  # the base has no types
    """A block of ours; its argument is the mark of what it shows."""

    ARGUMENT = True

    def on_init(self) -> None:
        """Start without a directive."""
        self.index = -1

    def on_validate(self, parent: Element) -> bool:
        """Accept a mark as argument, and nothing else."""
        del parent
        match = marks.MARK.fullmatch(self.argument or "")
        self.index = int(match[1]) if match else -1
        return match is not None

    @property
    def page(self) -> Rendering:
        """Return the page that is being rendered."""
        page: Rendering = self.config["extension"].rendering
        return page

    def on_create(self, parent: Element) -> Element:
        """Put the finished HTML in place."""
        element = SubElement(parent, "div", {"class": "ev-block"})
        html = self.page.block(self.index)
        element.text = AtomicString(self.md.htmlStash.store(html))
        return element


class CodeBlock(_Shown):
    """`/// code | attention.cu:online-update`."""

    NAME = "code"


class OutputBlock(_Shown):
    """`/// output | 097-attention`."""

    NAME = "output"


class NotebookBlock(_Shown):
    """`/// notebook | 084-gated-recurrence/companion.ipynb`."""

    NAME = "notebook"

    def on_create(self, parent: Element) -> Element:
        """Put the pieces in place; its headings are headings of the page."""
        element = SubElement(parent, "div", {"class": "ev-notebook"})
        for part in self.page.notebook(self.index):
            if part.level:
                SubElement(element, f"h{part.level}").text = AtomicString(part.html)
            else:
                piece = SubElement(element, "div", {"class": "ev-block"})
                piece.text = AtomicString(self.md.htmlStash.store(part.html))
        return element


class ClaimBlock(_Shown):
    """`/// claim`, an expression and a sentence."""

    NAME = "claim"

    def on_create(self, parent: Element) -> Element:
        """Make the frame: mark, sentence."""
        shown = self.page.item(self.index)
        kind, sign = "ev-claim ev-fails", "✗"
        if isinstance(shown, Claim):
            kind, sign = render.claim_class(shown), render.claim_sign(shown)
        element = SubElement(parent, "div", {"class": kind, "id": self.page.claim_id(self.index)})
        SubElement(element, "span", {"class": "ev-sign", "aria-hidden": "true"}).text = sign
        self.said = SubElement(element, "div", {"class": "ev-said"})
        return element

    def on_add(self, block: Element) -> Element:
        """Lead the content into the sentence's element."""
        del block
        return self.said

    def on_end(self, block: Element) -> None:
        """Add the folded part behind the sentence."""
        more = SubElement(block, "div", {"class": "ev-more"})
        more.text = AtomicString(self.md.htmlStash.store(self.page.claim(self.index)))


class RulingBlock(_Shown):
    """`/// ruling | 8`, a claim of somebody else, and why the verdict is what it is."""

    NAME = "ruling"

    def on_create(self, parent: Element) -> Element:
        """Make the frame: number, claim and verdict, sentence."""
        shown = self.page.item(self.index)
        element = SubElement(parent, "div", {"class": "ev-ruling"})
        if isinstance(shown, Ruling):
            element.attrib |= {
                "class": ledger.classes(shown),
                "id": self.page.announced(ids.ruling(shown.number)),
            }
            above = SubElement(element, "div", {"class": "ev-tried"})
            above.text = AtomicString(self.md.htmlStash.store(ledger.head(shown)))
        self.said = SubElement(element, "div", {"class": "ev-said"})
        return element

    def on_add(self, block: Element) -> Element:
        """Lead the content into the sentence's element."""
        del block
        return self.said

    def on_end(self, block: Element) -> None:
        """Add what decides it."""
        more = SubElement(block, "div", {"class": "ev-more"})
        more.text = AtomicString(self.md.htmlStash.store(self.page.ruling(self.index)))


class LedgerBlock(_Shown):
    """`/// ledger | 62`: the page's rulings, counted."""

    NAME = "ledger"


class PredictBlock(_Shown):
    """`/// predict`, a question whose answer is an expression."""

    NAME = "predict"

    def on_create(self, parent: Element) -> Element:
        """Make the frame: title, question."""
        shown = self.page.item(self.index)
        element = SubElement(parent, "div", {"class": "ev-predict"})
        if isinstance(shown, Predict):
            element.attrib |= predict.attributes(shown, self.page.bound.page.path)
        SubElement(element, "p", {"class": "ev-predict-title"}).text = "Predict"
        self.asked = SubElement(element, "div", {"class": "ev-asked"})
        return element

    def on_add(self, block: Element) -> Element:
        """Lead the content into the question's element."""
        del block
        return self.asked

    def on_end(self, block: Element) -> None:
        """Add what the reader answers with, and the answer."""
        more = SubElement(block, "div", {"class": "ev-more"})
        more.text = AtomicString(self.md.htmlStash.store(self.page.predict(self.index)))


class PlotBlock(_Shown):
    """`/// plot`, a chart, with its caption."""

    NAME = "plot"

    def on_create(self, parent: Element) -> Element:
        """Make the frame: drawings, caption."""
        element = SubElement(parent, "figure", {"class": "ev-plot"})
        drawn = SubElement(element, "div", {"class": "ev-drawn", "data-search-exclude": ""})
        drawn.text = AtomicString(self.md.htmlStash.store(self.page.plot(self.index)))
        self.caption = SubElement(element, "figcaption")
        return element

    def on_add(self, block: Element) -> Element:
        """Lead the content into the caption."""
        del block
        return self.caption

    def on_end(self, block: Element) -> None:
        """Add the table of numbers; take away a caption that stayed empty."""
        if not len(self.caption) and not self.caption.text:
            block.remove(self.caption)
        more = SubElement(block, "div", {"class": "ev-more"})
        more.text = AtomicString(self.md.htmlStash.store(self.page.plot_table(self.index)))


class DiffBlock(_Shown):
    """`/// diff`, two regions or programs side by side."""

    NAME = "diff"


class StatusBlock(_Shown):
    """`/// status`: the state of every program's evidence."""

    NAME = "status"


class ClaimsBlock(_Shown):
    """`/// claims`: every claim of the site."""

    NAME = "claims"


class DevicesBlock(_Shown):
    """`/// devices`: what was recorded where."""

    NAME = "devices"


class MapBlock(_Shown):
    """`/// map`: the course with its prerequisites."""

    NAME = "map"


class DaysBlock(_Shown):
    """`/// days`: the titles of all days."""

    NAME = "days"


KINDS = (
    CodeBlock,
    OutputBlock,
    NotebookBlock,
    ClaimBlock,
    StatusBlock,
    ClaimsBlock,
    DevicesBlock,
    PlotBlock,
    DiffBlock,
    PredictBlock,
    RulingBlock,
    LedgerBlock,
    MapBlock,
    DaysBlock,
)

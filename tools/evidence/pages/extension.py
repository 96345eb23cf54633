"""The Markdown extension: code, output, claims and bound numbers on a page.

It works from the scan of the page's text, so that what fails here is what
`evidence check` fails on: a preprocessor looks everything up and leaves a mark
in place of each directive, and blocks and an inline pattern turn the marks
into HTML. Nothing here needs the site's generator.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown.inlinepatterns import InlineProcessor
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import STX, AtomicString
from pymdownx.blocks import BlocksExtension

from evidence.errors import EvidenceError
from evidence.findings import failing
from evidence.pages import blocks, host, marks, reading
from evidence.pages.rendering import Rendering
from evidence.pages.scan import BLOCKS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from markdown import Markdown
    from pymdownx.blocks import BlocksProcessor

_LEFT_OVER = re.compile(r"(?:^|\n)/{3,} *(?:" + "|".join(BLOCKS) + r")\b|\[[=!]\s")


class EvidenceExtension(BlocksExtension):  # type: ignore[misc]  # the base has no types
    """Registered as `evidence` for `markdown_extensions`.

    Options:
        page: The page's file, where the host does not say which it is.
        on_error: `fail` raises on everything that `evidence check` fails on;
            `show` renders it into the page instead (the plugin's choice
            under `serve`).
    """

    def __init__(self, **options: Any) -> None:
        self.config = {
            "page": ["", "The page's file, where the host does not say which it is"],
            "on_error": ["fail", "fail, or show"],
        }
        self.page: Rendering | None = None
        self.parsed = False
        super().__init__(**options)

    def extendMarkdownBlocks(self, md: Markdown, block_mgr: BlocksProcessor) -> None:  # noqa: N802
        """Register everything with a Markdown instance."""
        md.registerExtension(self)
        for kind in blocks.KINDS:
            block_mgr.register(kind, {"extension": self})
        reading.register(md, self)
        # After white space is normalised (30), before fences are taken out (25).
        md.preprocessors.register(_LookUp(md, self), "evidence", 28)
        # Above references and links; code spans hold no marks.
        md.inlinePatterns.register(_Number(self, md), "evidence", 185)
        # Before code is highlighted (30), and again for code spans (inline: 20).
        md.treeprocessors.register(_Restore(md, self), "evidence_code", 31)
        md.treeprocessors.register(_Restore(md, self), "evidence_spans", 19.5)
        # After inline patterns (20).
        md.treeprocessors.register(_Tidy(md, self), "evidence_tidy", 19)
        md.treeprocessors.register(_Parsed(md, self), "evidence_parsed", -100)
        md.postprocessors.register(_Finish(md, self), "evidence", -10)

    def reset(self) -> None:
        """Forget the page."""
        self.page = None
        self.parsed = False

    @property
    def rendering(self) -> Rendering:
        """Return the page that is being rendered."""
        if self.page is None:
            raise EvidenceError("no page is being rendered", fix="convert text with this instance")
        return self.page

    def refuse(self, message: str, line: int, fix: str) -> None:
        """Fail on what the scan could not see, or put it on the banner."""
        page = self.rendering
        error = EvidenceError(message, path=page.bound.page.path, line=line, fix=fix)
        if self.getConfig("on_error") == "fail":
            raise error
        page.late.append(error)


class _LookUp(Preprocessor):
    """Looks up everything the page asks for, and leaves marks in its place."""

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, lines: list[str]) -> list[str]:
        on_error = self.extension.getConfig("on_error")
        page = Rendering.of(
            "\n".join(lines), host.of(self.md, self.extension.getConfig("page")), Path.cwd()
        )
        self.extension.page = page
        self.extension.parsed = False
        wrong = failing(page.bound.findings)
        if wrong and on_error == "fail":
            raise EvidenceError("\n".join(finding.explain() for finding in wrong))
        return _marked(page).split("\n")


def _marked(page: Rendering) -> str:
    """Return the page's text with a mark in place of each directive."""
    scanned = page.bound.page.scan
    pieces, position = [], 0
    for index, item in enumerate(scanned.items):
        pieces.append(scanned.text[position : item.start])
        if item.head.startswith("/"):
            slashes = len(item.head) - len(item.head.lstrip("/"))
            pieces.append(f"{'/' * slashes} {item.kind} | {marks.mark(index)}")
        else:
            pieces.append(marks.mark(index))
        position = item.end
    pieces.append(scanned.text[position:])
    return "".join(pieces)


class _Number(InlineProcessor):
    """Turns a mark in a sentence into its number."""

    def __init__(self, extension: EvidenceExtension, md: Markdown) -> None:
        super().__init__(marks.MARK.pattern, md)
        self.extension = extension

    def handleMatch(  # type: ignore[override]  # noqa: N802
        self, m: re.Match[str], data: str
    ) -> tuple[Element, int, int]:
        del data
        return self.extension.rendering.inline(int(m[1])), m.start(0), m.end(0)


class _Restore(Treeprocessor):
    """Puts directives back where the text turns out to be code after all."""

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        for element in root.iter("code"):
            if element.text and STX in element.text:
                element.text = AtomicString(self._restored(element.text))

    def _restored(self, text: str) -> str:
        items = self.extension.rendering.bound.page.scan.items
        text = marks.BLOCK.sub(lambda m: items[int(m[1])].head, text)
        return marks.MARK.sub(lambda m: items[int(m[1])].head, text)


class _Tidy(Treeprocessor):
    """Takes links out of links, and refuses a directive that was overlooked."""

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            for inner in link.iter("a"):
                if inner is not link and "ev-value" in inner.get("class", ""):
                    inner.tag = "span"
                    inner.attrib.pop("href", None)
        for element in root.iter():
            if element.tag not in ("code", "pre"):
                for text in (element.text, *(child.tail for child in element)):
                    if text and not isinstance(text, AtomicString):
                        self._refuse_left_over(text)

    def _refuse_left_over(self, text: str) -> None:
        match = _LEFT_OVER.search(text)
        page = self.extension.rendering
        if match is not None and not page.bound.page.scan.problems:
            self.extension.refuse(
                f"`{match[0].strip()}` stands where it cannot be read as a directive",
                page.line_of(text[match.start() :].strip()),
                "give it a line or paragraph of its own, or escape it with a backslash",
            )


class _Parsed(Treeprocessor):
    """Notes that the page's tree is complete; the last one to run."""

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        del root
        self.extension.parsed = True


class _Finish(Postprocessor):
    """Puts plain numbers into attributes and raw HTML, the date and the banner on top."""

    def __init__(self, md: Markdown, extension: EvidenceExtension) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, text: str) -> str:
        page = self.extension.rendering
        for left in marks.BLOCK.finditer(text):
            item = page.bound.page.scan.items[int(left[1])]
            self.extension.refuse(
                f"`{item.head.splitlines()[0]}` stands in raw HTML, where no block is read",
                item.line,
                'add markdown="1" to the HTML element around it',
            )
        text = marks.BLOCK.sub("", text)
        text = marks.MARK.sub(lambda m: page.plain(int(m[1])), text)
        if not self.extension.parsed:
            return text  # a piece of it: `toc` renders each heading by itself
        return page.banner() + page.around(page.dated(text))


def makeExtension(**options: Any) -> EvidenceExtension:  # noqa: N802
    """Return the extension, as Python-Markdown asks for it."""
    return EvidenceExtension(**options)

"""Reading a page's directives, without rendering it.

A directive is a block (`/// code | attention.cu:online-update`) or stands in a
sentence (`[= t_online / t_naive | .2f ]`, `[! 48 KiB | source ]`). The command
`evidence check` and the Markdown extension both work from what is found here,
so neither can see a directive that the other overlooks.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from evidence.pages import directives, inline, lines
from evidence.pages.directives import ARGUMENTS, BLOCKS, Block, Option, Prose
from evidence.pages.headings import Heading, heading_of
from evidence.pages.inline import Inline, Problem

__all__ = ["ARGUMENTS", "BLOCKS", "Block", "Option", "Scan", "scan"]

_INDENTED = re.compile(rf" *(/{{3,}} *(?:{'|'.join(BLOCKS)}))(?: *\||$)")
_NO_ARGUMENT = {
    "claim": "put the expression in an option `    expect: a < b`, the sentence in the block",
    "plot": "put what is plotted in an option `    series:`, the caption in the block",
    "diff": "put what is compared in options `    old:` and `    new:`",
    "predict": "put the expression in an option `    answer: a / b`, the question in the block",
}
# Blocks whose sentences are judged.
_CLAIMING = ("claim", "ruling")
# Blocks of other extensions whose names could be taken for ours.
_FOREIGN = ("admonition", "caption", "details", "html", "note", "tab")


@dataclass(frozen=True, slots=True)
class Scan:
    """What a page's text holds.

    Attributes:
        text: The text that was scanned, with LF and spaces for tabs.
        items: Directives in the order in which they stand.
        problems: What looks like a directive and is none.
        headings: Its headings, by line.
        prose: Everything that is neither code nor options.
    """

    text: str
    items: tuple[Block | Inline, ...]
    problems: tuple[Problem, ...]
    headings: tuple[Heading, ...] = ()
    prose: tuple[Prose, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A block of ours that is being read."""

    slashes: str
    name: str
    argument: str
    line: int
    start: int
    end: int
    options: list[Option] = field(default_factory=list)
    indent: int = 0
    body: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.slashes} {self.name}"


def scan(text: str, first_line: int = 1) -> Scan:
    """Find all directives of a page.

    Args:
        text: The page without its front matter.
        first_line: The page's line on which `text` begins.
    """
    reader = _Reader(lines.normalise(text), first_line)
    reader.run()
    items = sorted(reader.items, key=lambda i: i.start)
    problems = sorted(reader.problems, key=lambda p: (p.line, p.message))
    headings, prose = tuple(reader.headings), tuple(reader.prose)
    return Scan(reader.text, tuple(items), tuple(problems), headings, prose)


class _Reader:
    """Walks over classified lines, collecting blocks and paragraphs."""

    def __init__(self, text: str, first_line: int) -> None:
        self.text = text
        self.first = first_line
        self.items: list[Block | Inline] = []
        self.problems: list[Problem] = []
        self.headings: list[Heading] = []
        self.prose: list[Prose] = []
        self.drafts: dict[int, _Draft] = {}  # by the block's first line
        self.heading: _Draft | None = None
        self.paragraph: list[lines.Line] = []

    def run(self) -> None:
        for line in lines.classify(self.text):
            if line.breaks or line.kind != "text":
                self._flush()
            for start in line.left:
                self._not_closed(start)
            self._one(line)
            for start in line.inside:
                if start in self.drafts and line.kind != "option" and start != line.index:
                    self.drafts[start].body.append(line.rest)
        self._flush()
        for start in list(self.drafts):
            self._not_closed(start)

    def _one(self, line: lines.Line) -> None:
        if line.kind == "option":
            if self.heading is not None:
                self._option(self.heading, line)
            return
        self.heading = None
        if line.kind == "start":
            self._start(line)
        elif line.kind == "end" and line.closed is not None:
            draft = self.drafts.pop(line.closed, None)
            if draft is not None:
                self._finish(draft)
        elif line.kind == "text":
            self._text(line)

    def _text(self, line: lines.Line) -> None:
        heading = heading_of(line, self.text, self.paragraph, self.first)
        if heading is not None:
            self.headings.append(heading)
        self.paragraph.append(line)
        match = _INDENTED.match(line.rest)
        if match is not None:
            self._problem(
                self.first + line.index,
                f"`{match[1]}` stands inside a paragraph, where no block begins",
                "put a blank line above, and indent it as far as the text around it",
            )

    def _problem(self, line: int, message: str, fix: str) -> None:
        self.problems.append(Problem(line, message, fix))

    def _flush(self) -> None:
        if self.paragraph:
            found, wrong = inline.find(self.paragraph, self.first)
            self.items += found
            self.problems += wrong
            inside = self.paragraph[0].inside
            claimed = any(s in self.drafts and self.drafts[s].name in _CLAIMING for s in inside)
            self.prose.append(Prose(tuple(self.paragraph), claimed))
            self.paragraph = []

    def _label(self, line: lines.Line, text: str) -> None:
        """Take text that readers see out of a line that is none."""
        if text:
            offset = line.offset + line.rest.rfind(text)
            self.prose.append(Prose((lines.Line(line.index, offset, text),)))

    def _not_closed(self, start: int) -> None:
        draft = self.drafts.pop(start, None)
        if draft is not None:
            self._problem(
                draft.line,
                f"`{draft.title}` is not closed",
                f"end it with a line `{draft.slashes}` at the same indentation",
            )

    def _start(self, line: lines.Line) -> None:
        count, name, argument = line.header or (3, "", "")
        number = self.first + line.index
        if name not in BLOCKS:
            self._label(line, argument)
            self._stranger(number, name)
            return
        start = line.offset + len(line.rest) - len(line.rest.lstrip(" "))
        end = line.offset + len(line.rest)
        draft = _Draft("/" * count, name, argument, number, start, end)
        if line.clash:
            self._problem(
                number,
                f"`{draft.title}` stands in a block with as many slashes, whose end comes first",
                "give the outer block's first and last line one slash more",
            )
        if name in ARGUMENTS and not argument:
            self._problem(
                number,
                f"`{draft.title}` lacks its argument",
                f"write `{draft.title} | {ARGUMENTS[name]}`",
            )
        elif argument and name not in ARGUMENTS:
            self._problem(
                number,
                f"`{draft.title}` takes no argument, but has `{argument}`",
                _NO_ARGUMENT.get(name, "take it out"),
            )
        self.drafts[line.index] = self.heading = draft

    def _stranger(self, number: int, name: str) -> None:
        close = difflib.get_close_matches(name, BLOCKS, n=1, cutoff=0.7)
        if close and name not in _FOREIGN:
            self._problem(number, f"no block is named `{name}`", f"did you mean `{close[0]}`?")

    def _option(self, draft: _Draft, line: lines.Line) -> None:
        text = line.rest.strip()
        indent = len(line.rest) - len(line.rest.lstrip(" "))
        number = self.first + line.index
        draft.end = line.offset + len(line.rest)
        if draft.options and indent > draft.indent:
            last = draft.options.pop()
            joined, more = f"{last.text} {text}".strip(), (*last.more, (number, text))
            draft.options.append(Option(last.name, joined, last.line, more))
            if last.name in directives.LABELS.get(draft.name, ()):
                self._label(line, text.rpartition(": ")[0])
            return
        draft.indent = indent
        name, colon, value = text.partition(":")
        known = BLOCKS[draft.name]
        if not colon or name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no options"
            self._problem(number, f"`{text}` is no option of `{draft.title}`", takes)
        elif any(o.name == name for o in draft.options):
            self._problem(number, f"option `{name}` is given twice", "keep one of them")
        else:
            draft.options.append(Option(name, value.strip(), number))
            if name in directives.SEEN.get(draft.name, ()):
                self._label(line, value.strip())

    def _finish(self, draft: _Draft) -> None:
        body = "\n".join(draft.body).strip("\n")
        head = self.text[draft.start : draft.end]
        block = Block(
            draft.name, draft.argument, tuple(draft.options), draft.line,
            draft.start, draft.end, head, body,
        )  # fmt: skip
        self.items.append(block)
        if draft.name not in directives.WITH_TEXT and body.strip():
            self._problem(
                draft.line,
                f"`{draft.title}` takes no content",
                f"end it with a line `{draft.slashes}` before the text",
            )
        if draft.name in directives.MUST:
            self._incomplete(draft, block)

    def _incomplete(self, draft: _Draft, block: Block) -> None:
        name, example, content, remedy = directives.MUST[draft.name]
        if not block.body.strip():
            self._problem(draft.line, f"`{draft.title}` has no {content}", remedy)
        option = block.option(name)
        if option is None or not option.text:
            self._problem(
                draft.line,
                f"`{draft.title}` has no expression",
                f"add an option `    {name}: {example}` under its first line",
            )

"""Options of a block that hold a list: `label: what`, each in a line of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import expressions
from evidence.errors import EvidenceError, ExpressionError

if TYPE_CHECKING:
    from evidence.expressions import Expression
    from evidence.pages.binder import Binder
    from evidence.pages.directives import Block

_COMMA = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of an option.

    Attributes:
        label: What readers see.
        what: A name, an expression, an address, or a list of them.
        line: One-based line of the page.
    """

    label: str
    what: str
    line: int


def read(block: Block, name: str) -> tuple[Entry, ...]:
    """Return the lines of an option; none if it is not given.

    Raises:
        EvidenceError: A line is no `label: what`, or a label stands twice.
    """
    option = block.option(name)
    if option is None:
        return ()
    lines = option.more
    if not lines or lines[0][1] != option.text[: len(lines[0][1])]:
        # Something stands behind the option's own colon.
        lines = ((option.line, option.text), *lines) if option.text else ()
    found: dict[str, Entry] = {}
    for line, text in lines:
        label, _, what = (part.strip() for part in text.rpartition(": "))
        if not label or not what:
            raise EvidenceError(
                f"`{text}` under `{name}:` is not read",
                line=line,
                fix="write each in a line of its own, indented deeper, `label: name`",
            )
        if label in found:
            raise EvidenceError(f"`{label}` is given twice", line=line, fix="rename one of them")
        found[label] = Entry(label, what, line)
    return tuple(found.values())


def parts(binder: Binder, what: str, line: int) -> list[Expression]:
    """Return what an entry is made of: one address, or expressions in a list.

    A word with a slash in it is an address, unless the page gives its parts as
    names: `case-*/time`, but `online/naive` where both are names.

    Raises:
        Refused: An expression cannot be read, or a name or program is unknown.
    """
    if "/" in what and " " not in what and not _is_quotient(binder, what):
        binder.names.take(what, line)
        try:
            binder.names.place(what)
        except EvidenceError as error:
            raise binder.refused("unknown-program", line, error) from None
        return [expressions.of_address(what)]
    return [binder.expression(part.strip(), line) for part in _COMMA.split(what)]


def spelled(block: Block) -> list[str]:
    """Return the addresses that a plot's options spell out, as written.

    Raises:
        EvidenceError: An option cannot be read.
    """
    whats = [entry.what for name in ("series", "ceiling") for entry in read(block, name)]
    at = block.option("at")
    whats += [at.text] if at is not None else []
    return [what for what in whats if "/" in what and " " not in what]


def _is_quotient(binder: Binder, what: str) -> bool:
    try:
        return binder.names.knows(expressions.parse(what).names)
    except ExpressionError:
        return False

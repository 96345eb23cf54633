"""The ledger as HTML: how many verdicts there are of each kind, and each of them."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from evidence.pages import ids, render, rulings
from evidence.pages.ruled import Ruling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evidence.model import Program
    from evidence.pages.render import Href
    from evidence.pages.shown import Shown

    Place = Callable[[Program], str | None]

WORDS = {"roughly": "roughly true", "undecided": "not decided here"}
"""Verdicts that readers see otherwise than they are written."""

_SIGNS = {"true": "✓", "roughly": "≈", "false": "✗", "undefined": "?", "undecided": "…"}
_FOLD = "the verdict "
_CODE = re.compile(r"`([^`]+)`")


def summary(found: Sequence[Shown]) -> str:
    """Return the counts of a page's verdicts, as a choice of what to show, and all its numbers.

    The choice works by styles alone: whatever is chosen hides the others.
    """
    ruled = sorted((f for f in found if isinstance(f, Ruling)), key=lambda f: f.number)
    counts = Counter(ruling.verdict for ruling in ruled)
    options = [("all", "all", len(ruled))]
    options += [(v, WORDS.get(v, v), counts[v]) for v in rulings.VERDICTS if counts[v]]
    return (
        '<div class="ev-ledger" data-search-exclude=""><fieldset><legend>Show</legend>'
        f"{''.join(_choice(*option) for option in options)}</fieldset>"
        f'<p class="ev-numbers">{" ".join(_number(ruling) for ruling in ruled)}</p></div>'
    )


def _choice(verdict: str, words: str, count: int) -> str:
    checked = " checked" if verdict == "all" else ""
    return (
        f'<label class="ev-is-{verdict}"><input type="radio" name="ev-ledger" '
        f'id="ev-only-{verdict}"{checked}> {words} <b>{count}</b></label>'
    )


def _number(ruling: Ruling) -> str:
    words = _plain(ruling.words)
    return (
        f'<a class="ev-ruled ev-is-{ruling.verdict}" href="#{ids.ruling(ruling.number)}" '
        f'title="{escape(words)}">{ruling.number} '
        f'<span aria-hidden="true">{_SIGNS[ruling.verdict]}</span>'
        f'<span class="ev-aloud">{_words(ruling)}</span></a>'
    )


def classes(ruling: Ruling) -> str:
    """Return the class names of a ruling's element."""
    return f"ev-ruling ev-is-{ruling.verdict}"


def head(ruling: Ruling) -> str:
    """Return what stands above a ruling's sentence: number, claim and verdict."""
    anchor = ids.ruling(ruling.number)
    words = _CODE.sub(r"<code>\1</code>", escape(ruling.words))
    return (
        f'<p class="ev-charge"><a class="ev-no" href="#{anchor}" '
        f'aria-label="Claim {ruling.number}">{ruling.number}</a> {words}</p>'
        f'<p class="ev-verdict"><b>{_words(ruling)}</b> '
        f'<span class="ev-kind">{escape(ruling.kind)}</span></p>'
    )


def details(ruling: Ruling, href: Href, place: Place) -> str:
    """Return what stands under a ruling's sentence: its expression, and what decides it.

    Args:
        ruling: The ruling.
        href: Gives the link to a value's place.
        place: Gives the link to where a program is shown.
    """
    links = [_link(program.name, place(program)) for program in ruling.programs]
    by = f'<p class="ev-by">Decided by {", ".join(links)}.</p>' if links else ""
    return by + (render.claim_details(ruling.claim, href, _FOLD) if ruling.claim else "")


def said(ruling: Ruling) -> str:
    """Return a ruling as one line of text, for a list of claims."""
    return f"Claim {ruling.number} is {_words(ruling)}: {_plain(ruling.words)}"


def _link(name: str, href: str | None) -> str:
    text = escape(name).replace("/", "/<wbr>")
    return f'<a href="{escape(href)}">{text}</a>' if href else text


def _words(ruling: Ruling) -> str:
    return WORDS.get(ruling.verdict, ruling.verdict)


def _plain(words: str) -> str:
    return words.replace("`", "")

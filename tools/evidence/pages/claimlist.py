"""Every claim of the site in one list: sentence, expression, numbers, verdicts."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from evidence.errors import EvidenceError
from evidence.pages import headings, ids, ledger, render, shown
from evidence.pages.claims import written
from evidence.pages.ruled import Ruling
from evidence.pages.scan import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.pages.bindings import Pages
    from evidence.pages.overview import Link
    from evidence.pages.shown import Bound, Claim

_DIRECTIVE = re.compile(r"(?<!\\)\[[=!] [^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]")
_LINK = re.compile(r"!?\[((?:\\.|[^\]\\])*)\](?:\([^)]*\)|\[[^\]]*\])")
_MARKUP = re.compile(r"\\(?=[^\w\s])|[*`]|<[^>\n]*>")
_PLURAL = re.compile(r"holds|does")
_MANY = {"holds": "hold", "does": "do"}
_SHOWN = 4  # comparisons listed before the rest is only counted


def claims(pages: Pages, link: Link) -> str:
    """Return all claims, page by page.

    Args:
        pages: The pages.
        link: Gives the address of an anchor on a page.
    """
    parts: list[str] = []
    verdicts: Counter[tuple[str, str]] = Counter()
    docs = pages.library.project.root / pages.library.project.config.docs
    count = 0
    for path in pages.library.pages():
        try:
            bound = pages.bound(path)
        except EvidenceError:
            continue  # the page's own findings say so
        here = path.relative_to(docs).as_posix()
        rows = []
        for anchor, sentence, claim in _of_page(bound):
            rows.append(_row(claim, sentence, link(here, anchor)))
            verdicts.update((v.device, render.stands(v)[2]) for v in claim.verdicts)
        if rows:
            count += len(rows)
            title = f'<a href="{escape(link(here, ""))}">{escape(headings.title(bound.page))}</a>'
            parts.append(_group(title, rows))
    if not parts:
        return "<p>No page claims anything yet.</p>"
    counted = f"{count} claims on {len(parts)} pages" if count != 1 else "1 claim on 1 page"
    return f'<p class="ev-count">{counted}{_tally(verdicts)}</p>{"".join(parts)}'


def _tally(verdicts: Counter[tuple[str, str]]) -> str:
    """Return how many claims stand how, device by device."""
    found: dict[str, list[str]] = {}
    for (device, words), count in verdicts.items():
        plural = words if count == 1 else _PLURAL.sub(lambda m: _MANY[m[0]], words, count=1)
        found.setdefault(device, []).append(f"{count} {plural.rstrip(',')}")
    return "".join(f"; on {escape(d)}: {escape(', '.join(texts))}" for d, texts in found.items())


def _of_page(bound: Bound) -> Iterator[tuple[str, str, Claim]]:
    """Yield anchor, sentence and claim of every claim on a page that could be judged."""
    number = 0
    pairs = list(zip(bound.page.scan.items, bound.shown, strict=True))
    for index, (item, found) in enumerate(pairs):
        if isinstance(found, Ruling) and found.claim is not None:
            yield ids.ruling(found.number), ledger.said(found), found.claim
        if not isinstance(item, Block) or item.kind != "claim":
            continue
        number += 1
        if isinstance(found, shown.Claim):
            numbers = []
            for _, inner in pairs[index + 1 :]:
                if not isinstance(inner, shown.Number | shown.Sourced | shown.Failed):
                    break
                numbers.append("?" if isinstance(inner, shown.Failed) else inner.text)
            yield ids.claim(number), sentence(item.body, numbers), found


def sentence(body: str, numbers: list[str]) -> str:
    """Return a claim's text without markup, the numbers in it in place.

    Args:
        body: What stands in the claim's block.
        numbers: The texts of the directives that follow the block's first
            line, in order; those that stand behind the block come last.
    """
    waiting = iter(numbers)
    text = _DIRECTIVE.sub(lambda _: next(waiting, "?"), " ".join(body.split()))
    return _MARKUP.sub("", _LINK.sub(lambda m: m[1], text))


def _group(title: str, rows: list[str]) -> str:
    return (
        f'<section class="ev-claims" data-search-exclude=""><p class="ev-of">{title}</p>'
        f"<ul>{''.join(rows)}</ul></section>"
    )


def _row(claim: Claim, text: str, href: str) -> str:
    stands = "".join(_stand(verdict) for verdict in claim.verdicts)
    margin = f" with a margin of {escape(claim.margin)}" if claim.margin else ""
    return (
        f'<li class="{render.claim_class(claim)}">'
        f'<span class="ev-sign" aria-hidden="true">{render.claim_sign(claim)}</span>'
        f'<div class="ev-said"><p><a href="{escape(href)}">{escape(text)}</a></p>'
        f'<p class="ev-must"><code>{escape(claim.expression)}</code>{margin}</p>'
        f'<dl class="ev-stands">{stands}</dl></div></li>'
    )


def _stand(verdict: shown.Verdict) -> str:
    compared = [written(c) for c in verdict.comparisons]
    more = len(compared) - _SHOWN
    numbers = "; ".join(compared[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    words = render.stands(verdict)[2].rstrip(",")
    text = f"{words}: {numbers}" if numbers else words
    return f"<dt>{escape(verdict.device)}</dt><dd>{escape(text)}</dd>"

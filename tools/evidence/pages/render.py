"""Bound numbers and claims as HTML elements."""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from markdown.util import AtomicString

from evidence import digits, quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evidence.pages.shown import Claim, Holds, Number, Source, Sourced, Verdict
    from evidence.verdicts import Comparison

    Href = Callable[[Source], str | None]

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<href>[^)\s]+)\)|<?(?P<bare>https?://[^>\s]+)>?")
_MOST = 8  # sources listed behind a claim

# (class, sign, words) of how a claim stands.
_STANDS: dict[Holds, tuple[str, str, str]] = {
    "holds": ("ev-holds", "✓", "holds"),
    "holds within noise": ("ev-noise", "≈", "holds within noise"),
    "fails": ("ev-fails", "✗", "does not hold"),
    "not measured": ("ev-unmeasured", "–", "not measured"),  # noqa: RUF001
}


def number(shown: Number, href: Href, address: Href) -> Element:
    """Return a bound number: a link to its place in the recorded output.

    Args:
        shown: The number.
        href: Gives the link to a source's place, which the host may still
            rewrite; None where no page shows it.
        address: Gives the same link as the browser needs it.
    """
    first = next((place for source in shown.sources if (place := href(source))), None)
    title = "\n".join(f"{_address(source)}: {what(source)}" for source in shown.sources[:_MOST])
    single = len(shown.sources) == 1 and shown.expression == shown.sources[0].name
    # What the title and the link do not say already.
    data: dict[str, object] = {} if single else {"expression": shown.expression}
    elsewhere = _elsewhere(shown.sources[:_MOST], [address(s) for s in shown.sources[:_MOST]])
    if elsewhere:
        data["places"] = elsewhere
    return _bound(shown.text, "ev-value", title, data, first)


def _elsewhere(sources: Sequence[Source], places: Sequence[str | None]) -> dict[str, str | None]:
    """Return the pages of programs whose values are not on the page of the first one."""
    pages = {
        source.program.name: None if place is None else place.partition("#")[0]
        for source, place in zip(sources, places, strict=True)
    }
    first = next((page for page in pages.values() if page is not None), None)
    return {name: page for name, page in pages.items() if page != first}


def sourced(shown: Sourced) -> Element:
    """Return a number that was not measured here, with its source."""
    match = _LINK.search(shown.source)
    href = (match["href"] or match["bare"]) if match else None
    text = _LINK.sub(lambda m: m["text"] or m["bare"], shown.source)
    title = f"not measured here; source: {text}"
    return _bound(shown.text, "ev-value ev-sourced", title, {}, href)


def failed(message: str) -> Element:
    """Return what stands, under `serve`, in place of something that fails."""
    element = Element("span", {"class": "ev-error"})
    element.text = AtomicString(message)
    return element


def what(source: Source) -> str:
    """Say in words what a value is: number, spread, runs."""
    value = source.value
    quantity = quantities.of(value)
    text = digits.show(quantity)
    count = len(value.samples)
    of = {"profile": "launch", "run": "run"}.get(value.source)
    if of is None:
        return f"{text}, {_STEP[value.source]}"
    plural = {"launch": "launches", "run": "runs"}[of] if count != 1 else of
    if value.exact:
        return f"{text}, the same in all {count} {plural}" if count > 1 else f"{text}, one {of}"
    band = digits.spread(quantity)
    spread = f"{band} in {count} {plural}" if band else f"the same in all {count} {plural}"
    return f"{text}, median; {spread}"


_STEP = {
    "compile": "as the compiler reported",
    "sanitize": "as the sanitizer reported",
    "mutants": "counted by the recorder",
    "device": "as the driver reported",
    "runs": "counted by the recorder",
}


def _address(source: Source) -> str:
    return f"{source.program.name}: {source.value.address}"


def _bound(text: str, kind: str, title: str, data: dict[str, object], href: str | None) -> Element:
    attributes = {"class": kind, "title": title}
    if href:
        attributes["href"] = href
    else:
        attributes["tabindex"] = "0"
    if data:
        attributes["data-ev"] = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    element = Element("a" if href else "span", attributes)
    element.text = AtomicString(text)
    return element


def claim_class(shown: Claim) -> str:
    """Return the class names of a claim's element."""
    return f"ev-claim {stands(shown.verdicts[0])[0]}"


def claim_sign(shown: Claim) -> str:
    """Return the mark in the margin."""
    return stands(shown.verdicts[0])[1]


def claim_details(shown: Claim, href: Href, what: str = "") -> str:
    """Return the folded part of a claim: its verdicts, expression and numbers.

    Args:
        shown: The claim.
        href: Gives the link to a value's place.
        what: What it is that holds, if it is not the sentence above.
    """
    first, *others = shown.verdicts
    words = (
        f'{escape(what)}<span class="ev-mark">{stands(first)[2]}</span> on {escape(first.device)}'
    )
    words += "".join(f"; {stands(v)[2]} on {escape(v.device)}" for v in others)
    margin = f" with a margin of {escape(shown.margin)}" if shown.margin else ""
    tables = "".join(_comparisons(v, named=len(shown.verdicts) > 1) for v in shown.verdicts)
    return (
        f'<details class="ev-why"><summary>{words}</summary>'
        f"<p><code>{escape(shown.expression)}</code>{margin}</p>{tables}"
        f"{_behind(shown, href)}</details>"
    )


def stands(verdict: Verdict) -> tuple[str, str, str]:
    """Return class, sign and words of how a claim stands on a device."""
    if verdict.holds == "fails" and verdict.expected:
        return "ev-not-here", "✗", "does not hold, as said,"
    return _STANDS[verdict.holds]


def _comparisons(verdict: Verdict, *, named: bool) -> str:
    if not verdict.comparisons:
        return ""
    caption = f"<caption>{escape(verdict.device)}</caption>" if named else ""
    rows = "".join(_comparison(c) for c in verdict.comparisons)
    table = f'<table class="ev-table">{caption}<tbody>{rows}</tbody></table>'
    return f'<div class="ev-scroll" tabindex="0">{table}</div>'


def _comparison(c: Comparison) -> str:
    about = c.key or f"{c.left_text} {c.sign} {c.right_text}"
    cells = [about, digits.show(c.left), c.sign, digits.show(c.right), _STANDS[c.outcome][2]]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _behind(shown: Claim, href: Href) -> str:
    """Return links to the values that a claim stands on, program by program."""
    links: dict[str, list[str]] = {}
    for source in shown.sources[:_MOST]:
        place, text = href(source), escape(source.value.address)
        link = f'<a href="{escape(place)}">{text}</a>' if place else text
        links.setdefault(source.program.name, []).append(link)
    more = len(shown.sources) - _MOST
    parts = [f"{escape(name)}: {', '.join(found)}" for name, found in links.items()]
    parts += [f"and {more} more"] if more > 0 else []
    return f"<p>Stands on {', '.join(parts)}.</p>" if parts else ""

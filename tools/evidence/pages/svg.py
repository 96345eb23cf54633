"""Making matplotlib's SVG small, and its colours those of the style sheet.

What matplotlib writes is a tree of groups, named and with definitions apart,
made for editing, with the day on which it was written. A page needs the shapes
and the text in the order in which they are painted, and nothing that could
clash with another drawing's names.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET  # of what matplotlib wrote a moment ago

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is drawn in these colours is shown in those of the style sheet: ink, text
# that steps back, lines that step back, paper; then one for each series.
INK, SOFT, RULE = "#010101", "#010102", "#010103"
COLOURS = ("#020201", "#020202", "#020203", "#020204", "#020205", "#020206")

_SHOWN = {
    INK: "var(--ev-ink,currentColor)",
    SOFT: "var(--ev-soft,currentColor)",
    RULE: "var(--ev-rule,currentColor)",
} | {colour: f"var(--ev-c{i},currentColor)" for i, colour in enumerate(COLOURS, 1)}

_STYLES = ("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "text-anchor")
_DEFAULTS = {"stroke-width": ("1",), "text-anchor": ("start",), "stroke-opacity": ("1",)}
_NUMBER = re.compile(r"-?\d+\.\d+")
_SPACE = re.compile(r"\s+")
_LINK = "{http://www.w3.org/1999/xlink}href"


def clean(text: str, width: int, height: int) -> str:
    """Return a drawing as one small SVG element.

    It has `{about}` where its title and description belong, after the mark
    `{named}` in its first tag.

    Args:
        text: What matplotlib wrote.
        width: Of the drawing, in CSS pixels.
        height: Likewise.
    """
    root = ET.fromstring(text)  # noqa: S314
    named = {element.get("id"): element for element in root.iter() if element.get("id")}
    shapes = "".join(_shapes(root, named))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f"{{named}}>{{about}}{shapes}</svg>"
    )


def _shapes(element: ET.Element, named: dict[str | None, ET.Element]) -> Iterator[str]:
    for child in element:
        kind = _tag(child)
        if kind in ("metadata", "defs", "style"):
            continue
        if kind == "g":
            yield from _shapes(child, named)
        elif kind == "path":
            yield _path(child.get("d", ""), _style(child))
        elif kind == "use":
            path = named[child.get(_LINK, "").removeprefix("#")]
            place = f"translate({child.get('x', '0')} {child.get('y', '0')})"
            yield _path(path.get("d", ""), _style(path) | _style(child), place)
        elif kind == "text":
            yield _text(child)
        else:
            raise AssertionError(kind)


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _style(element: ET.Element) -> dict[str, str]:
    pairs = (part.partition(":") for part in element.get("style", "").split(";"))
    style = {name.strip(): value.strip() for name, _, value in pairs}
    return {name: style[name] for name in _STYLES if name in style}


def _attributes(style: dict[str, str]) -> str:
    kept = {n: _SHOWN.get(v, v) for n, v in style.items() if v not in _DEFAULTS.get(n, ())}
    return "".join(f' {name}="{escape(_short(value))}"' for name, value in kept.items())


def _path(d: str, style: dict[str, str], transform: str = "") -> str:
    place = f' transform="{_short(transform)}"' if transform else ""
    shape = _SPACE.sub(" ", _short(d)).strip()
    return f'<path d="{shape}"{place}{_attributes(style)}/>'


def _text(element: ET.Element) -> str:
    style = _style(element)
    place = f'x="{_short(element.get("x", "0"))}" y="{_short(element.get("y", "0"))}"'
    words = escape("".join(element.itertext()), quote=False)
    return f"<text {place}{_attributes(style)}>{words}</text>"


def _short(text: str) -> str:
    """Return text with its numbers rounded to tenths of a pixel."""
    return _NUMBER.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)

"""Recorded output of several devices: one figure each, and a choice between them.

The choice is made of radio buttons, so it works by keyboard and without
scripts; a script remembers it from page to page.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from evidence.pages import ids, paper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evidence.pages.library import Library
    from evidence.pages.shown import Output


@dataclass(frozen=True, slots=True)
class Tab:
    """The output on one device.

    Attributes:
        device: The device's label.
        name: The GPU's name.
        figure: The output as HTML.
    """

    device: str
    name: str
    figure: str


def output(library: Library, found: Output, named: set[str]) -> str:
    """Return a program's recorded output, with a choice of devices where there are several.

    Args:
        library: Where values are found.
        found: The program and its evidence.
        named: Anchors that the page has already; those of this output are added.
    """
    group = ids.output(found.program.name)
    first = group not in named
    if not first:  # shown a second time: its anchors stay where they are
        group = f"{group}~again{len(named)}"
    named.add(group)
    return tabs(list(_tabs(library, found, group, named=first)), group)


def _tabs(library: Library, found: Output, group: str, *, named: bool) -> Iterator[Tab]:
    """Yield the figure of each device; only that of the primary one carries anchors."""
    for state in (found.state, *found.others):
        record = state.record
        if record is None:
            continue
        values = library.reading(found.program, state.device).values
        primary = state is found.state
        wanted = library.wanted(found.program, state.device) if primary else ()
        figure = paper.figure(
            found.program,
            record,
            values,
            wanted=wanted,
            named=named and primary,
            group=group if primary else f"{group}~{state.device}",
        )
        yield Tab(state.device, record.data["device"]["name"], figure)


def tabs(found: Sequence[Tab], group: str) -> str:
    """Return the figures with a choice between them; a single one as it is.

    Args:
        found: The devices, the one that sentences are bound to first.
        group: A name for the choice that is unique on the page.
    """
    if len(found) == 1:
        return found[0].figure
    names = Counter(tab.name for tab in found)
    parts = []
    for tab in found:
        name = tab.name if names[tab.name] == 1 else f"{tab.name} ({tab.device})"
        key = escape(f"{group}~on-{tab.device}")
        checked = " checked" if tab is found[0] else ""
        note = ""
        if tab is not found[0]:
            note = (
                f'<p class="ev-same">Sentences on this page are about {escape(found[0].name)}, '
                "unless they say otherwise.</p>"
            )
        parts.append(
            f'<input type="radio" name="{escape(group)}~on" id="{key}" '
            f'value="{escape(tab.device)}"{checked}>'
            f'<label for="{key}">{escape(name)}</label>'
            f'<div class="ev-device">{note}{tab.figure}</div>'
        )
    return f'<div class="ev-devices" role="radiogroup" aria-label="Device">{"".join(parts)}</div>'

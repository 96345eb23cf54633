"""Predict boxes: the reader guesses before the answer is shown.

Without a script the question stands, and its answer is folded below it. With
one, the answer stays away until there is a guess to hold it against.
"""

from __future__ import annotations

import hashlib
import math
import re
from html import escape
from typing import TYPE_CHECKING

from evidence.pages import shown

if TYPE_CHECKING:
    from evidence.pages.binder import Binder
    from evidence.pages.scan import Block

_NUMBER = re.compile(r"[^\s\N{MULTIPLICATION SIGN}%]+\s*")
_DIGITS = 12  # of the hash that a guess is kept under


def look_up(binder: Binder, block: Block) -> shown.Shown:
    """Look up what a predict box asks for.

    Raises:
        Refused: The answer is no number.
    """
    answer, unit = block.option("answer"), block.option("unit")
    if answer is None or not answer.text:
        return shown.Failed("this question has no answer")  # the scan has said so
    text, _, detail = (part.strip() for part in answer.text.partition("|"))
    number = binder.number(text, detail, answer.line)
    if number.quantity is None or not math.isfinite(number.quantity.median):
        binder.add("bad-expression", answer.line, f"`{text}` is no finite number", "ask for one")
        return shown.Failed("this question has no answer")
    return shown.Predict(number, unit.text if unit is not None else "")


def attributes(found: shown.Predict, page: str) -> dict[str, str]:
    """Return what the script has to know: numbers, unit, and a name to keep a guess under.

    Args:
        found: The question's answer.
        page: The page's path.
    """
    quantity = found.number.quantity
    assert quantity is not None  # noqa: S101  # `look_up` has made sure
    scale = 100 if found.number.text.endswith("%") and quantity.unit != "%" else 1
    low, median, high = (scale * n for n in (quantity.low, quantity.median, quantity.high))
    name = hashlib.sha256(f"{page}\n{found.number.about}".encode()).hexdigest()[:_DIGITS]
    return {
        "data-guess": name,
        "data-value": f"{median:.15g}",
        "data-low": f"{low:.15g}",
        "data-high": f"{high:.15g}",
        "data-unit": unit(found),
    }


def unit(found: shown.Predict) -> str:
    """Return what the guess is in: as the page says, or as the number is shown."""
    if found.unit:
        return found.unit
    return _NUMBER.sub("", found.number.text, count=1)


def asked(found: shown.Predict, number: str) -> str:
    """Return what stands under the question.

    Args:
        found: The question's answer.
        number: The answer as HTML.
    """
    own = escape(unit(found))
    # A number that shows its own unit needs no second one behind it.
    bare = not _NUMBER.sub("", found.number.text, count=1)
    behind = f" {escape(found.unit)}" if found.unit and bare else ""
    return (
        '<form class="ev-guess"><label>Your guess '
        '<input type="text" inputmode="decimal" autocomplete="off" size="8" required>'
        f"{f' {own}' if own else ''}</label> "
        '<button type="submit">Commit</button></form>'
        '<div class="ev-told" role="status"></div>'
        f'<details class="ev-answer"><summary>Answer</summary><p>Measured: {number}{behind}</p>'
        "</details>"
    )

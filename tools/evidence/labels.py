"""Labels of printed numbers: one segment of an address, and a unit."""

from __future__ import annotations

import re
from functools import lru_cache

from evidence import units

_OUTSIDE = re.compile(r"[^A-Za-z0-9._+]+")
_UNIT = re.compile(r"(?P<label>.*?)\s*\((?P<unit>[^\s()=,]*[^\s()=,\d][^\s()=,]*)\)")


@lru_cache(maxsize=4096)
def slug(text: str) -> str:
    """Return a text as one segment of an address; its case is kept."""
    return _OUTSIDE.sub("-", text).strip("-")


@lru_cache(maxsize=4096)
def split_label(text: str) -> tuple[str, str]:
    """Cut `time (ms)` into the segment `time` and the unit `ms`.

    A unit is one word in parentheses at the end; `(n = 256)` is none.
    """
    match = _UNIT.fullmatch(text.removesuffix(":"))
    return (slug(match["label"]), match["unit"]) if match else (slug(text), "")


def split_known(text: str) -> tuple[str, str]:
    """Cut a unit off only if it surely is one.

    Titles and names of rows say more than units in parentheses: `online
    (fused)` keeps both its words.
    """
    segment, unit = split_label(text)
    return (segment, unit) if units.is_known(unit) else (slug(text), "")

"""Which lines of two texts differ, and which words of two lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Kind = Literal["same", "changed", "removed", "added"]
Ranges = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.5  # least likeness of two lines that are shown as one line changed
_MOST = 900  # pairs of lines to look for likeness in


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a comparison.

    Attributes:
        kind: Whether it is the same, changed, or on one side alone.
        old: Index of the line in the old text, if it is there.
        new: Likewise in the new one.
        old_words: Of a changed line, the columns that are not in the new one.
        new_words: Likewise.
    """

    kind: Kind
    old: int | None
    new: int | None
    old_words: Ranges = ()
    new_words: Ranges = ()


def rows(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Return the lines of both texts side by side."""
    found: list[Row] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found += [Row("same", a + i, c + i) for i in range(b - a)]
        else:
            found += _replaced(old, new, (a, b), (c, d))
    return found


def _replaced(
    old: Sequence[str], new: Sequence[str], here: tuple[int, int], there: tuple[int, int]
) -> Iterator[Row]:
    """Yield lines that were replaced, those that are alike beside each other."""
    pair = _most_alike(old, new, range(*here), range(*there))
    if pair is None:
        yield from (Row("removed", i, None) for i in range(*here))
        yield from (Row("added", None, i) for i in range(*there))
        return
    i, j = pair
    yield from _replaced(old, new, (here[0], i), (there[0], j))
    yield Row("changed", i, j, *words(old[i], new[j]))
    yield from _replaced(old, new, (i + 1, here[1]), (j + 1, there[1]))


def _most_alike(
    old: Sequence[str], new: Sequence[str], here: range, there: range
) -> tuple[int, int] | None:
    if not here or not there or len(here) * len(there) > _MOST:
        return None
    ratio, _, _, i, j = max(
        (_likeness(old[i], new[j]), -abs((i - here[0]) - (j - there[0])), -i, i, j)
        for i in here
        for j in there
    )
    return (i, j) if ratio >= _ALIKE else None


def _likeness(old: str, new: str) -> float:
    a, b = _WORD.findall(old.strip()), _WORD.findall(new.strip())
    return SequenceMatcher(None, a, b, autojunk=False).ratio() if a and b else 0.0


def words(old: str, new: str) -> tuple[Ranges, Ranges]:
    """Return the columns in which two lines differ, word by word."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    places = _places(a), _places(b)
    gone: list[tuple[int, int]] = []
    come: list[tuple[int, int]] = []
    for kind, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            gone += [(places[0][i], places[0][j])] if i < j else []
            come += [(places[1][k], places[1][n])] if k < n else []
    return tuple(gone), tuple(come)


def _places(pieces: Sequence[str]) -> list[int]:
    places = [0]
    for piece in pieces:
        places.append(places[-1] + len(piece))
    return places


def folded(found: Sequence[Row], context: int = 3) -> Iterator[Row | int]:
    """Yield rows, with the number of lines in place of long runs that are the same.

    Args:
        found: From `rows`.
        context: Lines that are kept on both sides of a change.
    """
    keep = {
        near
        for index, row in enumerate(found)
        if row.kind != "same"
        for near in range(index - context, index + context + 1)
    }
    left_out = 0
    for index, row in enumerate(found):
        if index in keep:
            if left_out:
                yield left_out
            left_out = 0
            yield row
        else:
            left_out += 1
    if left_out:
        yield left_out

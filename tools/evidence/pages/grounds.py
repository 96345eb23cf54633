"""What a section's text stands on: regions, numbers and claims, and what of them changed.

A ground has a state that can be kept in a file and compared later. Only what
matters to a reader counts: of a region its code, not its comments; of a number
that was measured, whether it left its band; of a claim, how it stands.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evidence import lexing, merging, units
from evidence.pages import shown
from evidence.pages.ruled import Ruling
from evidence.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evidence.expressions import Expression
    from evidence.model import Program
    from evidence.pages.shown import Shown
    from evidence.quantities import Quantity
    from evidence.regions import Region

Kind = Literal["claims", "regions", "values"]
KINDS: tuple[Kind, ...] = ("claims", "regions", "values")
Key = tuple[Kind, str]
State = tuple[str, ...]
Change = tuple[str, str]

_DIGITS = 16  # hexadecimal digits kept of a hash
_SHOWN = 12
_PARTS = {"regions": (2,), "values": (1, 4)}
_NAME = re.compile(r"(?<![A-Za-z0-9_.])[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Code:
    """A region of a program; its state is the hash of its code, and of its text.

    The second only saves reading the code of a text that is known.
    """

    program: Program
    region: Region

    @property
    def key(self) -> Key:
        """Return what it is kept under."""
        return ("regions", f"{self.program.folder}/{self.program.path.name}:{self.region.name}")

    @property
    def label(self) -> str:
        """Return it as findings name it."""
        return f"region {self.program.path.name}:{self.region.name}"

    def state(self) -> State:
        """Return what is kept of it."""
        return (self._code(), _hash(self.region.text))

    def change(self, was: State) -> Change | None:
        """Return what it was and is, if its code changed."""
        if was[1] == _hash(self.region.text):
            return None
        code = self._code()
        return None if was[0] == code else (was[0][:_SHOWN], code[:_SHOWN])

    def _code(self) -> str:
        return _hash(lexing.code_text(self.region.text, self.program.language))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that the text shows; its state is its text, or its band and unit.

    Attributes:
        name: Its expression with addresses in place of short names.
        written: Its expression as the page has it.
        quantity: What it comes to.
    """

    name: str
    written: str
    quantity: Quantity

    @property
    def key(self) -> Key:
        """Return what it is kept under."""
        return ("values", self.name)

    @property
    def label(self) -> str:
        """Return it as findings name it."""
        which = self.quantity.key if self.written.isidentifier() else ""
        return f"number `{self.written}`" + (f" at {which}" if which else "")

    def state(self) -> State:
        """Return what is kept of it."""
        q = self.quantity
        if q.exact:
            return (self._exact(),)
        return (repr(float(q.low)), repr(float(q.median)), repr(float(q.high)), q.unit)

    def change(self, was: State) -> Change | None:
        """Return what it was and is, if it is another number now."""
        q = self.quantity
        if len(was) == 1:
            same = q.low == q.high and was[0] == self._exact()
            return None if same else (was[0], self._now())
        low, median, high = (float(number) for number in was[:3])
        if was[3] == q.unit and not _left(low, median, high, q.median):
            return None
        return _with_unit(f"{low:g} to {high:g}", was[3]), self._now()

    def _exact(self) -> str:
        text = self.quantity.text or f"{self.quantity.median:.15g}"
        return _with_unit(text, self.quantity.unit)

    def _now(self) -> str:
        q = self.quantity
        return self._exact() if q.exact else _with_unit(f"{q.median:g}", q.unit)


@dataclass(frozen=True, slots=True)
class Said:
    """A claim; its state is how it stands on each device, `h200: holds`."""

    claim: shown.Claim

    @property
    def key(self) -> Key:
        """Return what it is kept under."""
        margin = f", margin {self.claim.margin}" if self.claim.margin else ""
        return ("claims", f"{self.claim.about}{margin}")

    @property
    def label(self) -> str:
        """Return it as findings name it."""
        return f"claim `{self.claim.expression}`"

    def state(self) -> State:
        """Return what is kept of it."""
        return tuple(f"{device}: {holds}" for device, holds in self._stands().items())

    def change(self, was: State) -> Change | None:
        """Return how it stood and stands, if that changed on a device of both."""
        old = dict(text.split(": ", 1) for text in was)
        now = self._stands()
        differ = [device for device in now if old.get(device, now[device]) != now[device]]
        if not differ:
            return None
        then, today = (", ".join(f"{how[d]} on {d}" for d in differ) for how in (old, now))
        return then, today

    def _stands(self) -> dict[str, str]:
        verdicts = self.claim.verdicts
        return {v.device: v.holds for v in verdicts if v.holds != "not measured"}


Ground = Code | Figure | Said


def of(found: Shown) -> Iterator[Ground]:
    """Yield what a shown directive makes the text around it stand on.

    A whole source is none: it is there to be looked up, not described.
    """
    if isinstance(found, shown.Code):
        if found.region is not None:
            yield Code(found.program, found.region)
    elif isinstance(found, shown.Number):
        if found.quantity is not None:
            yield Figure(found.about, found.expression, found.quantity)
    elif isinstance(found, shown.Predict):
        yield from of(found.number)
    elif isinstance(found, shown.Plot | shown.Diff):
        for part in found.parts:
            yield from of(part)
    elif isinstance(found, shown.Claim | Ruling):
        claim = found.claim if isinstance(found, Ruling) else found
        if claim is not None and any(v.comparisons for v in claim.verdicts):
            yield Said(claim)


def about(expression: Expression, place: Callable[[str], tuple[Program, str]]) -> str:
    """Return an expression with addresses in place of a page's short names.

    Args:
        expression: The expression.
        place: Gives a name's program and address.
    """
    spelled = {}
    for name in expression.names:
        program, address = place(name)
        spelled[name] = f"{program.name}:{address}"
    if expression.text in spelled:
        return spelled[expression.text]
    text = " ".join(expression.text.split())
    return _NAME.sub(lambda m: f"{{{spelled[m[0]]}}}" if m[0] in spelled else m[0], text)


def fits(kind: Kind, state: object) -> bool:
    """Whether a state that was read from a file has the shape of its kind."""
    if not isinstance(state, list) or not all(isinstance(text, str) for text in state):
        return False
    if kind == "claims":
        return all(": " in text for text in state)
    if len(state) not in _PARTS[kind]:
        return False
    return kind != "values" or all(_is_number(text) for text in state[:3] if len(state) > 1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _left(low: float, median: float, high: float, now: float) -> bool:
    if not math.isfinite(median) or not math.isfinite(now):
        return repr(float(median)) != repr(float(now))
    texts = (repr(low), repr(median), repr(high))
    return merging.left_band(Value("", "", (low, median, high), texts, exact=False), now)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_DIGITS]


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {units.shown(unit)}" if unit else text

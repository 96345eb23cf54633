"""What the ledger's directives come to: somebody else's claims, with the verdict on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evidence.model import Program
    from evidence.pages.shown import Claim


@dataclass(frozen=True, slots=True)
class Ruling:
    """Somebody else's claim, with the verdict on it.

    Attributes:
        number: Its number in the ledger.
        words: The claim.
        kind: What kind of a claim it is, one of `rulings.KINDS`.
        verdict: One of `rulings.VERDICTS`.
        claim: What must hold for the verdict, if numbers decide it.
        programs: The programs that decide it, besides those behind the numbers.
    """

    number: int
    words: str
    kind: str
    verdict: str
    claim: Claim | None
    programs: tuple[Program, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The counts of a page's rulings, and how many there must be."""

    count: int

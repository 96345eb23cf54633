"""The short names of a page and what they stand for on a device."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from evidence import addresses, quantities
from evidence.errors import EvidenceError, ExpressionError
from evidence.pages.front import Name
from evidence.pages.shown import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.model import Program
    from evidence.pages.front import Front
    from evidence.pages.library import Library
    from evidence.quantities import Bound, Quantity


class Names:
    """Looks up the names of one page.

    Args:
        library: Where evidence is found.
        front: The page's front matter.
    """

    def __init__(self, library: Library, front: Front) -> None:
        self._library = library
        self._known = {name.name: name for name in front.values}
        self.programs = tuple(name for name, _ in front.programs)
        self.used: set[str] = set()
        self._places: dict[str, tuple[Program, str]] = {}
        self._bound: dict[tuple[str, str], Bound] = {}

    @property
    def primary(self) -> str:
        """Return the label of the device that prose binds to."""
        return self._library.device

    def devices(self, name: str) -> list[str]:
        """Return the devices that a name's program has evidence of."""
        return self._library.devices(self.place(name)[0])

    def unknown(self, names: Iterable[str]) -> ExpressionError | None:
        """Return the error for the first name that the page does not give, if any."""
        for name in names:
            if name not in self._known:
                close = difflib.get_close_matches(name, self._known, n=3, cutoff=0.5)
                hint = f"; close: {', '.join(close)}" if close else ""
                return ExpressionError(
                    f"`{name}` is no name of this page{hint}",
                    fix=f"give it an address under `values:`, `{name}: program:section/label`",
                )
        return None

    def place(self, name: str) -> tuple[Program, str]:
        """Return the program and the address that a name stands for.

        Raises:
            EvidenceError: Its program is unknown, or not said.
        """
        self.used.add(name)
        if name not in self._places:
            self._places[name] = self._place(name)
        return self._places[name]

    def _place(self, name: str) -> tuple[Program, str]:
        given = self._known[name]
        program, colon, address = given.address.partition(":")
        if colon:
            return self._library.program(program.strip(), self.programs), address.strip()
        if len(self.programs) != 1:
            raise EvidenceError(
                f"`{name}: {given.address}` does not say which program it is about",
                fix=f"write `{name}: program:{given.address}`",
            )
        return self._library.program(self.programs[0]), given.address

    def line(self, name: str) -> int:
        """Return the page's line that gives a name its address."""
        return self._known[name].line

    def bind(self, name: str, device: str) -> Bound:
        """Return what a name stands for in an expression, on a device.

        Raises:
            EvidenceError: Its program is unknown, or has no such value.
        """
        if (name, device) not in self._bound:
            program, address = self.place(name)
            reading = self._library.reading(program, device)
            self._bound[name, device] = quantities.bind(address, reading.values, reading.absent)
        return self._bound[name, device]

    def sources(self, name: str, device: str, result: Quantity | None) -> list[Source]:
        """Return the values behind a name, for a reader who wants to see them.

        Args:
            name: The name.
            device: The device's label.
            result: What an expression with it came to: of a vector, only the
                elements that the result was picked from are returned.
        """
        program, address = self.place(name)
        reading = self._library.reading(program, device)
        found = addresses.resolve(address, reading.values, reading.absent)
        if result is not None and result.text is not None and len(found) > 1:
            picked = [value for value in found if value.median == result.median]
            found = tuple(picked) or found
        return [Source(name, program, value) for value in found]

    def take(self, address: str, line: int) -> None:
        """Take an address that a block spells out, as a name of its own.

        Args:
            address: The address, with its program if the block names it.
            line: The page's line that has it.
        """
        self._known.setdefault(address, Name(address, address, line))

    def knows(self, names: Iterable[str]) -> bool:
        """Whether the page gives all of some names."""
        return all(name in self._known for name in names)

    def by_key(self, name: str, device: str) -> dict[str, Source]:
        """Return the values behind a name by what its wildcards stood for."""
        program, address = self.place(name)
        reading = self._library.reading(program, device)
        found = addresses.resolve(address, reading.values, reading.absent)
        return {
            addresses.captured(address, value.address): Source(name, program, value)
            for value in found
        }

    def unused(self) -> list[Name]:
        """Return the names that nothing on the page uses."""
        return [name for key, name in self._known.items() if key not in self.used]

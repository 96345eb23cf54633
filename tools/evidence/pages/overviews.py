"""Looking up the tables over all evidence: `status`, `claims` and `devices`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence import addresses
from evidence.errors import EvidenceError
from evidence.pages import shown

if TYPE_CHECKING:
    from evidence.pages.binder import Binder
    from evidence.pages.directives import Block, Option


def look_up(binder: Binder, block: Block) -> shown.Overview:
    """Return the table, with the ceilings that its option names: `program:address, …`."""
    option = block.option("ceilings")
    parts = [] if option is None else [(part.strip(), option) for part in option.text.split(",")]
    return shown.Overview(block.kind, tuple(_ceiling(binder, *part) for part in parts))


def _ceiling(binder: Binder, text: str, option: Option) -> shown.Ceiling:
    name, _, address = (part.strip() for part in text.partition(":"))
    if not name or not address:
        wrong = EvidenceError(
            f"`{text}` names no program and address", fix="write `ceilings: program:address`"
        )
        raise binder.refused("unknown-address", option.line, wrong)
    program, device = binder.program(name, option.line), binder.library.device
    binder.believe(program, device, option.line)
    if binder.library.state(program, device).record is None:
        return shown.Ceiling(program, address)
    reading = binder.library.reading(program, device)
    try:
        addresses.resolve(address, reading.values, reading.absent)
    except EvidenceError as error:
        raise binder.refused("unknown-address", option.line, error) from None
    return shown.Ceiling(program, address)

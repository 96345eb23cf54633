"""The block that shows a notebook: looked up, and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.errors import EvidenceError
from evidence.pages import hosted, ids, nbpage, shown, wholes

if TYPE_CHECKING:
    from evidence.pages.binder import Binder
    from evidence.pages.host import Host
    from evidence.pages.library import Library
    from evidence.pages.overview import Link
    from evidence.pages.scan import Block


def look_up(binder: Binder, block: Block) -> shown.Shown:
    """Return the notebook that a page names, with its evidence on the primary device."""
    program, device = binder.program(block.argument, block.line), binder.library.device
    if program.language != "notebook":
        fix = f"write `/// output | {block.argument}`, or name an .ipynb"
        error = EvidenceError(f"{program.relative} is no notebook", fix=fix)
        raise binder.refused("unknown-program", block.line, error)
    binder.believe(program, device, block.line)
    return shown.Notebook(program, binder.judged[program.name, device])


def parts(
    library: Library, host: Host, found: shown.Notebook, link: Link, *, named: bool
) -> list[nbpage.Part]:
    """Return a notebook, piece by piece.

    Args:
        library: Where its evidence is found.
        host: What renders the page.
        found: The notebook.
        link: Gives the address of an anchor on a page.
        named: Whether it carries anchors.
    """
    program, device = found.program, library.device
    bar = hosted.bar(
        program.path.name,
        wholes.address(library, host, program, link),
        host.repository.notebook(program.relative),
        ids.output(program.name) if named else "",
    )
    return nbpage.parts(
        program,
        found.state,
        library.reading(program, device).values,
        wanted=library.wanted(program, device) if named else (),
        cache=library.project.root / nbpage.FOLDER,
        bar=bar,
    )

"""`evidence reviewed`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evidence import project
from evidence.pages import reread, reviewing
from evidence.pages.bindings import Pages
from evidence.pages.library import Library

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.pages.reread import Judged


@click.command("reviewed")
@click.argument("pages", nargs=-1, metavar="[PAGE[#SECTION]]...")
@click.option("--all", "everything", is_flag=True, help="Every section of every page.")
@click.pass_obj
def command(start: Path | None, pages: tuple[str, ...], everything: bool) -> int:
    """Say that you have read sections against what they stand on now.

    A section stands on the regions it shows, the numbers in its sentences and
    its claims. When one of these changes, `evidence check` asks for it to be
    read again. PAGE is a page's path or its name; without #SECTION, all of its
    sections are meant.

    Without arguments, lists what has to be read again. In any case, what is
    kept of sections that are gone is removed.
    """
    found = reviewing.Reviewing(Pages(Library(project.load(start))))
    if not pages and not everything:
        return _list(found)
    chosen = found.everything() if everything else found.choose(pages)
    count = 0
    for page, names in chosen:
        marked = found.mark(page, names)
        count += len(marked)
        for judged in marked:
            _say(page.bound.page.path, judged)
        for name in page.doubtful & names:
            click.echo(f"{page.bound.page.path}#{name}: not marked, see: evidence check")
    if everything:
        found.prune()
    click.echo(f"{_sections(count)} read again")
    return 1 if any(page.doubtful & names for page, names in chosen) else 0


def _list(found: reviewing.Reviewing) -> int:
    waiting = 0
    for page, _ in found.everything():
        found.settle(page)
        for judged in page.judged():
            if judged.reread:
                waiting += 1
                _say(page.bound.page.path, judged)
    found.prune()
    if not waiting:
        click.echo("no section has to be read again")
        return 0
    click.echo(f"{_sections(waiting)} to read again; then run: evidence reviewed PAGE#SECTION")
    return 1


def _say(path: str, judged: Judged) -> None:
    click.echo(f"{path}#{judged.standing.name}")
    for text in reread.differences(judged):
        click.echo(f"  {text}")


def _sections(count: int) -> str:
    return "1 section" if count == 1 else f"{count} sections"

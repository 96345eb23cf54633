"""`evidence nav`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evidence import project
from evidence.pages import navigation
from evidence.pages.library import Library

if TYPE_CHECKING:
    from pathlib import Path


@click.command("nav")
@click.pass_obj
def command(start: Path | None) -> int:
    """List the days that have a page in the site's navigation."""
    found = project.load(start)
    changed = navigation.write(found, Library(found).course)
    click.echo(f"{'wrote' if changed else 'nothing to change in'} {navigation.NAME}")
    return 0

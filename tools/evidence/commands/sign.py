"""`evidence sign`."""

from __future__ import annotations

from pathlib import Path

import click

from evidence import signing


@click.command("sign")
@click.argument("bundles", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--key", required=True, type=click.Path(dir_okay=False, path_type=Path),
    help="An SSH key: private, or the public one of a key that an agent holds.",
)  # fmt: skip
def command(bundles: tuple[Path, ...], key: Path) -> int:
    """Sign bundles with an SSH key, so that `accept --require-signed` takes them."""
    for path in bundles:
        click.echo(f"signed {path} with {signing.sign(path, key)}")
    return 0

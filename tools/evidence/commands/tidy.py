"""`evidence tidy`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evidence import key, lexing, notebooks, project, store
from evidence.errors import EvidenceError

if TYPE_CHECKING:
    from evidence.project import Project


@click.command("tidy")
@click.argument("names", nargs=-1)
@click.pass_obj
def command(start: Path | None, names: tuple[str, ...]) -> int:
    """Write notebooks as they are kept: without outputs and what editors leave behind.

    NAMES are notebooks, folders or days; all notebooks of the project for none. Evidence
    stays what it is: only the code of a notebook counts for it.
    """
    found = project.load(start)
    paths = _paths(found, names)
    if not paths:
        raise EvidenceError("there is no notebook to tidy", fix="see: evidence list")
    written = 0
    for path in paths:
        shown = found.relative(path)
        text = lexing.to_lf(path.read_bytes()).decode("utf-8")
        due = notebooks.tidy(text, shown)
        if due != text:
            store.write(path, due)
            click.echo(f"wrote {shown}")
            written += 1
    if not written:
        what = f"all {len(paths)} notebooks are" if len(paths) > 1 else "the notebook is"
        click.echo(f"{what} as kept")
    return 0


def _paths(found: Project, names: tuple[str, ...]) -> list[Path]:
    """Return the notebooks that names stand for; a file need not be one of the project's."""
    files = [Path(name).resolve() for name in names if Path(name).is_file()]
    others = [name for name in names if not Path(name).is_file()]
    if others or not names:
        programs = found.find(others)
        files += [program.path for program in programs if program.language == "notebook"]
    for path in files:
        if path.suffix != notebooks.SUFFIX:
            raise EvidenceError("is no notebook", path=found.relative(path), fix="name an .ipynb")
        key.read_text(path, found.relative(path))  # says what is wrong with it
    return list(dict.fromkeys(files))

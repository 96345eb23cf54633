"""Notebooks as programs: their code as one text, and how their files are kept.

The code of a notebook is read as a script: each of its code cells after a line
`# %% [n]`, where n is the number that Jupyter shows beside the cell once all
were run in order. A cell without code (empty, or comments alone) has none. The
file is kept without anything that running it leaves behind; see `tidy`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".ipynb"
TIDY = "run: evidence tidy"
CELL = re.compile(r"^# %% \[(\d+)\]$", re.MULTILINE)

_KINDS = ("code", "markdown", "raw")
_FORMAT = 4
_MINOR = 5  # since which every cell has an id
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# What is kept of a notebook's metadata beside its language: what makes a hosted
# service give it a GPU. The rest is about who opened it last and with what.
_KEPT = {"accelerator": (), "colab": ("gpuType",)}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Attributes:
        kind: `code`, `markdown` or `raw`.
        text: What stands in it.
        number: Its place among the cells with code, from 1; 0 for all others.
        line: One-based line of the file on which it begins, as far as that can be told.
    """

    kind: str
    text: str
    number: int
    line: int


def load(text: str, relative: str) -> dict[str, Any]:
    """Read a notebook's file.

    Args:
        text: Its text.
        relative: Its path, for messages.

    Raises:
        SourceError: It is no notebook of Python that this tool can run.
    """

    def bad(message: str, fix: str, line: int = 1) -> SourceError:
        return SourceError(message, path=relative, line=line, fix=fix)

    try:
        found = json.loads(text)
    except ValueError as error:
        again = "undo the edit, or save it again in Jupyter"
        raise bad(f"is not JSON: {error}", again, getattr(error, "lineno", 1)) from None
    cells = found.get("cells") if isinstance(found, dict) else None
    version = found.get("nbformat") if isinstance(found, dict) else None
    if version != _FORMAT or not isinstance(cells, list):
        shown = f"notebook format {version}" if version else "no notebook"
        raise bad(f"is {shown}, not format {_FORMAT}", "save it with a current Jupyter")
    for number, cell in enumerate(cells, 1):
        if not _is_cell(cell):
            raise bad(f"cell {number} of the file is no cell", "save it again in Jupyter")
    metadata = found.get("metadata") or {}
    language = (metadata.get("language_info") or {}).get("name") or (
        metadata.get("kernelspec") or {}
    ).get("language", "python")
    if language != "python":
        raise bad(f"is a notebook of {language}, not of Python", "choose a Python kernel for it")
    return dict(found)


def _is_cell(cell: Any) -> bool:
    if not isinstance(cell, dict) or cell.get("cell_type") not in _KINDS:
        return False
    source = cell.get("source")
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )


def source_of(cell: dict[str, Any]) -> str:
    """Return what stands in a cell of a file, LF."""
    source = cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    return text.replace("\r\n", "\n")


def has_code(text: str) -> bool:
    """Whether there is more in a code cell than comments and blank lines."""
    # nbdriver.py asks the same, in the same way.
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.split("\n"))


def cells(text: str, relative: str) -> list[Cell]:
    """Return the cells of a notebook's file.

    Raises:
        SourceError: It is none, or a cell has a line that separates cells.
    """
    found = load(text, relative)
    lines = _Lines(text)
    made: list[Cell] = []
    number = 0
    for cell in found["cells"]:
        source = source_of(cell)
        line = lines.begin(cell)
        live = cell["cell_type"] == "code" and has_code(source)
        number += live
        if live and CELL.search(source):
            raise SourceError(
                f"cell [{number}] has a line `# %% [n]`, which is how cells are told apart",
                path=relative, line=line, fix="reword the comment",
            )  # fmt: skip
        made.append(Cell(cell["cell_type"], source, number if live else 0, line))
    return made


class _Lines:
    """Finds on which line of the file the text of each cell begins, cell after cell."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def begin(self, cell: dict[str, Any]) -> int:
        source = cell["source"]
        first = source if isinstance(source, str) else next(iter(source), "")
        for ascii_ in (False, True):
            place = self._text.find(json.dumps(first, ensure_ascii=ascii_), self._place)
            if place >= 0:
                self._place = place + 1
                break
        return self._text.count("\n", 0, self._place) + 1


def script(text: str, relative: str) -> str:
    """Return a notebook's code as one text, each cell after its line `# %% [n]`.

    Raises:
        SourceError: It is no notebook that this tool can run.
    """
    parts = [
        f"# %% [{cell.number}]\n{cell.text.rstrip()}\n"
        for cell in cells(text, relative)
        if cell.number
    ]
    return "\n".join(parts)


def placed(error: SourceError, script_text: str, path: Path) -> SourceError:
    """Return an error about a line of the script as one about its cell and the file's line."""
    found = place(script_text, error.line or 1, path)
    if found is None:
        return error
    cell, inside, line = found
    return SourceError(
        f"cell [{cell}], line {inside}: {error.message}",
        path=error.path or str(path), line=line, fix=error.fix,
    )  # fmt: skip


def place(script_text: str, line: int, path: Path) -> tuple[int, int, int] | None:
    """Return where a line of the script stands: cell, line of the cell, line of the file."""
    before = script_text.split("\n")[:line]
    heads = [(n, match) for n, text in enumerate(before, 1) if (match := CELL.match(text))]
    if not heads:
        return None
    head, match = heads[-1]
    number, inside = int(match[1]), line - head
    found = next(c for c in cells(path.read_text("utf-8"), str(path)) if c.number == number)
    return number, inside, found.line + inside - 1


def edited(text: str, relative: str, find: str, replace: str) -> str:
    """Return a notebook's file with a text replaced in the one cell with code that holds it.

    Raises:
        SourceError: No cell holds it, or it is there more than once.
    """
    found = load(text, relative)
    hits = [
        cell
        for cell in found["cells"]
        if cell["cell_type"] == "code" and has_code(source_of(cell)) and find in source_of(cell)
    ]
    if len(hits) != 1 or source_of(hits[0]).count(find) != 1:
        raise SourceError(f"{find!r} does not stand once in one cell", path=relative)
    hits[0]["source"] = source_of(hits[0]).replace(find, replace)
    return dump(found)


def tidy(text: str, relative: str) -> str:
    """Return a notebook's file as it is kept.

    Without outputs, execution counts and the metadata that editors leave;
    with an id for every cell; laid out as Jupyter does it.

    Raises:
        SourceError: It is no notebook that this tool can run.
    """
    found = load(text, relative)
    seen: set[str] = set()
    return dump({
        "cells": [_tidy_cell(cell, n, seen) for n, cell in enumerate(found["cells"], 1)],
        "metadata": _tidy_metadata(found.get("metadata") or {}),
        "nbformat": _FORMAT,
        "nbformat_minor": max(_MINOR, int(found.get("nbformat_minor") or 0)),
    })  # fmt: skip


def dump(document: dict[str, Any]) -> str:
    """Return a notebook's file, laid out as Jupyter does it."""
    made = {**document, "cells": [{**c, "source": _split(source_of(c))} for c in document["cells"]]}
    return json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def made(*sources: str) -> str:
    """Return the file of a notebook with these cells of code."""
    cells_ = [{"cell_type": "code", "source": source} for source in sources]
    return tidy(json.dumps({"cells": cells_, "nbformat": _FORMAT, "metadata": {}}), "made")


def _split(text: str) -> list[str]:
    return text.splitlines(keepends=True) if "\n" in text else [text] * bool(text)


def _tidy_cell(cell: dict[str, Any], number: int, seen: set[str]) -> dict[str, Any]:
    name = str(cell.get("id") or "")
    if not _ID.fullmatch(name) or name in seen:
        name = f"cell-{number}"
    seen.add(name)
    tags = (cell.get("metadata") or {}).get("tags")
    made: dict[str, Any] = {
        "cell_type": cell["cell_type"],
        "id": name,
        "metadata": {"tags": tags} if tags else {},
        "source": source_of(cell),
    }
    if cell["cell_type"] == "code":
        return made | {"execution_count": None, "outputs": []}
    return made | ({"attachments": cell["attachments"]} if cell.get("attachments") else {})


def _tidy_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, inner in _KEPT.items():
        value = metadata.get(name)
        if isinstance(value, dict):
            kept = {key: value[key] for key in inner if key in value}
            made |= {name: kept} if kept else {}
        elif value is not None and not inner:
            made[name] = value
    made["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made["language_info"] = {"name": "python"}
    return made


def untidy(text: str, relative: str) -> Iterator[tuple[int, str]]:
    """Yield what keeps a notebook's file from being as it is kept: lines and sentences.

    Raises:
        SourceError: It is no notebook that this tool can run.
    """
    if tidy(text, relative) == text:
        return
    found = load(text, relative)
    told = False
    for cell, at in zip(found["cells"], cells(text, relative), strict=True):
        name = f"cell [{at.number}]" if at.number else f"the {at.kind} cell on line {at.line}"
        for key, what in (("outputs", "outputs"), ("execution_count", "an execution count")):
            if cell.get(key):
                told = True
                yield at.line, f"{name} has {what}"
        for key in sorted((cell.get("metadata") or {}).keys() - {"tags"}):
            told = True
            yield at.line, f"{name} has the metadata {key!r}"
    kept = _tidy_metadata(found.get("metadata") or {})
    for key, value in sorted((found.get("metadata") or {}).items()):
        if kept.get(key) != value:
            told = True
            yield 1, f"its metadata {key!r} is not as it is kept"
    if not told:
        yield 1, "it is not laid out as it is kept"

"""Drawings that are kept from build to build, under what they depend on.

A drawing takes a tenth of a second, and the library a second to import; a site
whose numbers did not change draws nothing. A kept drawing is no evidence: it is
found only under the very numbers that it shows, and drawn again if it is not
whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from evidence.pages import drawing

if TYPE_CHECKING:
    from evidence.pages.drawing import Drawing

FOLDER = Path(".evidence") / "drawings"
"""Where drawings are kept, under the project's root; not in version control."""


def get(wanted: Drawing, cache: Path | None) -> str:
    """Return a drawing, kept or new.

    Args:
        wanted: What is to be drawn.
        cache: Folder that keeps drawings; None for none.
    """
    if cache is None:
        return drawing.draw(wanted)
    path = cache / f"{_key(wanted)}.svg"
    kept = _read(path)
    if kept is None:
        kept = drawing.draw(wanted)
        # A tree that nobody may write to is built all the same, only slower.
        with contextlib.suppress(OSError):
            _write(path, kept)
    return kept


def _key(wanted: Drawing) -> str:
    recipe = [drawing.VERSION, _library(), asdict(wanted)]
    return _hash(json.dumps(recipe, sort_keys=True))


@lru_cache(maxsize=1)
def _library() -> str:
    return version("matplotlib")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _read(path: Path) -> str | None:
    try:
        first, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if first == _hash(text) else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8", newline="\n"
    ) as file:
        file.write(f"{_hash(text)}\n{text}")
    os.replace(file.name, path)  # noqa: PTH105  # the name is a string

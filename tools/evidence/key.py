"""The key: the hash that decides whether evidence still belongs to its program.

key = sha256 over the key's version, every input file's path and code hash (the
source and what it includes from this project, transitively), the words of the
Build: and Run: lines in order, declared data inputs, and for Python the
declared package pins. Of a notebook only the cells with code count. Never
times, modes, comments or layout; device and toolchain are provenance and not
part of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import lexing, notebooks
from evidence.errors import SourceError
from evidence.model import FileHash, Inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evidence.model import Language, Program

KEY_VERSION = 1

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.?\w[\w.]*)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Change:
    """One input that differs between a record and the tree."""

    what: str
    old: str
    new: str


def read_text(path: Path, relative: str) -> tuple[bytes, str]:
    """Read a source file as LF-normalised bytes and text; of a notebook, its code as a script.

    Raises:
        SourceError: It is not there, not UTF-8, or no notebook though its name says so.
    """
    try:
        data = lexing.to_lf(path.read_bytes())
    except OSError as error:
        raise SourceError(
            f"cannot be read: {error.strerror}", path=relative, fix="restore the file"
        ) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            path=relative,
            line=line,
            fix="save the file as UTF-8",
        ) from None
    return data, notebooks.script(text, relative) if path.suffix == notebooks.SUFFIX else text


def inputs_of(program: Program, known: dict[str, Any] | None = None) -> Inputs:
    """Hash everything that decides about a program's evidence.

    Args:
        program: The program.
        known: The `files` table of its stored record. A file whose raw hash
            stands there keeps the code hash beside it, which saves lexing;
            the result is the same with and without.

    Raises:
        SourceError: A source or include cannot be read, or an include is
            missing, outside the project or part of a cycle.
    """
    files = dict(_files(program, known or {}))
    declared = {name: _data_hash(program, name) for name in sorted(program.plan.inputs)}
    return Inputs(
        files=files,
        build=() if program.build is None else program.build.words,
        run=program.run.words,
        declared=declared,
        pins=tuple(sorted(program.plan.requires)) if program.language != "cuda" else (),
    )


def key_of(inputs: Inputs) -> str:
    """Return the key of a program's inputs, 64 hexadecimal digits."""
    document = [
        KEY_VERSION,
        sorted((path, hashes.code) for path, hashes in inputs.files.items()),
        list(inputs.build),
        list(inputs.run),
        sorted(inputs.declared.items()),
        list(inputs.pins),
    ]
    return _sha(json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode())


def to_json(inputs: Inputs) -> dict[str, Any]:
    """Return the inputs as they stand in a record."""
    return {
        "build": list(inputs.build),
        "declared": dict(inputs.declared),
        "files": {p: {"code": h.code, "raw": h.raw} for p, h in inputs.files.items()},
        "pins": list(inputs.pins),
        "run": list(inputs.run),
    }


def changes(old: dict[str, Any], new: Inputs) -> list[Change]:
    """Name every input that differs between a record and the tree."""
    found: list[Change] = []
    before: dict[str, Any] = old.get("files", {})
    for path in sorted(before.keys() | new.files.keys()):
        was = before.get(path, {}).get("code", "")
        now = new.files[path].code if path in new.files else ""
        if was != now:
            found.append(Change(f"code of {path}", _short(was), _short(now)))
    for name, was_words, now_words in (
        ("Build: line", old.get("build", []), new.build),
        ("Run: line", old.get("run", []), new.run),
        ("required packages", old.get("pins", []), new.pins),
    ):
        if list(was_words) != list(now_words):
            found.append(Change(name, " ".join(was_words), " ".join(now_words)))
    data: dict[str, str] = old.get("declared", {})
    for path in sorted(data.keys() | new.declared.keys()):
        was, now = data.get(path, ""), new.declared.get(path, "")
        if was != now:
            found.append(Change(f"data of {path}", _short(was), _short(now)))
    return found


def _short(digest: str) -> str:
    return digest[:12] or "nothing"


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _data_hash(program: Program, name: str) -> str:
    path = program.directory / name
    try:
        return _sha(path.read_bytes())
    except OSError as error:
        raise SourceError(
            f"declared input {name!r} cannot be read: {error.strerror}",
            path=program.relative,
            fix=f"restore {name} or remove it from inputs in evidence.toml",
        ) from None


def _files(program: Program, known: dict[str, Any]) -> Iterator[tuple[str, FileHash]]:
    base = program.directory
    # Depth first with the trail of includers, so that a cycle can be told.
    pending: list[tuple[Path, tuple[str, ...]]] = [(program.path, ())]
    seen: set[str] = set()
    depth = len(Path(program.relative).parts) - 1
    root = base.parents[depth - 1] if depth else base
    followers: dict[Language, Callable[[str, Path], list[tuple[str, int]]]] = {
        "cuda": lambda text, _: lexing.includes(text),
        "python": _imports,
        "notebook": _imports,
    }
    while pending:
        path, trail = pending.pop()
        name = _relative(path, base)
        shown = _relative(path, root)
        if name in seen:
            continue
        seen.add(name)
        data, text = read_text(path, shown)
        raw = _sha(data)
        entry = known.get(name)
        if entry is not None and entry.get("raw") == raw:
            code = entry["code"]
        else:
            # What a notebook imports is plain Python.
            language = program.language if path == program.path or program.build else "python"
            code = _sha(lexing.code_text(text, language).encode("utf-8"))
        yield name, FileHash(raw=raw, code=code)
        for target, line in followers[program.language](text, path):
            child = Path(os.path.normpath(path.parent / target))
            _check_include(child, target, shown, line, root, (*trail, name), base)
            pending.append((child, (*trail, name)))


def _check_include(
    child: Path, target: str, shown: str, line: int, root: Path, trail: tuple[str, ...], base: Path
) -> None:
    if not child.is_relative_to(root):
        raise SourceError(
            f"includes {target!r}, which is outside the project",
            path=shown,
            line=line,
            fix="move the file into the project",
        )
    if not child.is_file():
        raise SourceError(
            f"includes {target!r}, which does not exist",
            path=shown,
            line=line,
            fix="correct the name or add the file",
        )
    name = _relative(child, base)
    if name in trail:
        chain = " → ".join([*trail[trail.index(name) :], name])
        raise SourceError(f"includes itself: {chain}", path=shown, line=line, fix="break the cycle")


def _relative(path: Path, base: Path) -> str:
    return os.path.relpath(path, base).replace("\\", "/")


def _imports(text: str, path: Path) -> list[tuple[str, int]]:
    """Return the modules beside a Python program that it imports."""
    found = []
    for match in _IMPORT.finditer(text):
        names = [match.group(1)] if match.group(1) else (match.group(2) or "").split(",")
        for name in names:
            head = name.strip().lstrip(".").split(".")[0].split(" ")[0]
            if head and (path.parent / f"{head}.py").is_file():
                found.append((f"{head}.py", text.count("\n", 0, match.start()) + 1))
    return [item for item in found if (path.parent / item[0]) != path]

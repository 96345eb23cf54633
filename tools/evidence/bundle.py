"""A bundle: records made on one machine, in one file, to be accepted on another.

A zip with a `manifest.json` and one entry per record. The manifest names each
entry's program, device and sha256; nothing else in a bundle is believed, and
no path in it is ever written to.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence import __version__, atomic, shards
from evidence.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from evidence.shards import Part

SCHEMA = 1
MANIFEST = "manifest.json"
SIGNATURE = f"{MANIFEST}.sig"  # see `signing`

_MOMENT = (1980, 1, 1, 0, 0, 0)  # zip's first; the same records make the same file
_LARGEST = 64 * 2**20  # bytes of one entry, unpacked
# What the zip module raises, depending on where a file is damaged.
_DAMAGED = (
    zipfile.BadZipFile, EOFError, OSError, NotImplementedError, OverflowError, RuntimeError,
    ValueError, struct.error, zlib.error,
)  # fmt: skip
RECORD_AGAIN = "record it again: evidence record --bundle FILE"


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a bundle, not yet believed.

    Attributes:
        program: The program's name, as the manifest gives it.
        device: The device's label, likewise.
        data: The record's bytes, of which the sha256 is right.
        problem: Why the entry cannot be used, if it cannot.
    """

    program: str
    device: str
    data: bytes
    problem: str = ""


def pack(records: Iterable[tuple[str, str, str]], part: Part | None = None) -> bytes:
    """Return the bytes of a bundle.

    Args:
        records: (program, device, text of its record).
        part: Which shard of a recording it is, if of one.
    """
    entries = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for program, device, text in sorted(records):
            name = f"{program}.{device}.json"
            data = text.encode("utf-8")
            digest = hashlib.sha256(data).hexdigest()
            entries.append({"program": program, "device": device, "entry": name, "sha256": digest})
            file.writestr(info_of(name), data)
        manifest: dict[str, Any] = {"bundle": SCHEMA, "tool": __version__, "records": entries}
        if part is not None:
            manifest["shard"] = part.document()
        text = json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
        file.writestr(info_of(MANIFEST), text.encode("utf-8"))
    return buffer.getvalue()


def info_of(name: str) -> zipfile.ZipInfo:
    """Return what an entry's head says: the same whenever it is written."""
    info = zipfile.ZipInfo(name, _MOMENT)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def write(path: Path, data: bytes) -> None:
    """Write a bundle whole or not at all.

    Raises:
        RecordError: It cannot be written.
    """
    try:
        atomic.write(path, data)
    except OSError as error:
        raise RecordError(
            f"cannot be written: {error.strerror}; the records are kept beside it", path=path,
            fix="make room, then run the same command",
        ) from None  # fmt: skip


def read(path: Path) -> list[Entry]:
    """Open a bundle and check it as a whole.

    Raises:
        RecordError: It is no zip, is truncated or damaged, has an entry that
            points outside, or has no manifest of a known schema.
    """
    try:
        with zipfile.ZipFile(path) as file:
            _check_names(path, file)
            return _entries(path, file)
    except FileNotFoundError:
        raise RecordError("is not there", path=path, fix="give the bundle's path") from None
    except _DAMAGED as error:
        raise _bad(path, f"is no bundle or is truncated: {error}") from None


def part_of(path: Path) -> Part | None:
    """Return which shard of a recording a bundle is that `read` found sound; None if of none."""
    try:
        with zipfile.ZipFile(path) as file:
            manifest = json.loads(file.read(MANIFEST).decode("utf-8"))
    except (KeyError, *_DAMAGED) as error:
        raise _bad(path, f"is no bundle or is truncated: {error}") from None
    return shards.of_document(manifest.get("shard"))


def _bad(path: Path, message: str) -> RecordError:
    return RecordError(message, path=path, fix=RECORD_AGAIN)


def _check_names(path: Path, file: zipfile.ZipFile) -> None:
    names = file.namelist()
    for info in file.infolist():
        name = info.filename
        parts = name.replace("\\", "/").split("/")
        outside = name.startswith(("/", "\\")) or ":" in name or ".." in parts or "" in parts
        if outside:
            raise _bad(path, f"has an entry {name!r} that points outside of it; nothing was taken")
        if (info.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            raise _bad(path, f"has an entry {name!r} that is no plain file; nothing was taken")
        if info.file_size > _LARGEST:
            raise _bad(path, f"has an entry {name!r} of {info.file_size} bytes; nothing was taken")
        if names.count(name) > 1:
            raise _bad(path, f"has two entries {name!r}; nothing was taken")
    if MANIFEST not in names:
        raise _bad(path, f"has no {MANIFEST}")


def _entries(path: Path, file: zipfile.ZipFile) -> list[Entry]:
    try:
        manifest = json.loads(file.read(MANIFEST).decode("utf-8"))
    except ValueError as error:
        raise _bad(path, f"{MANIFEST} is not JSON: {error}") from None
    schema = manifest.get("bundle") if isinstance(manifest, dict) else None
    if not isinstance(schema, int):
        raise _bad(path, f"{MANIFEST} has no schema")
    if schema > SCHEMA:
        raise RecordError(
            f"was written by a newer tool: bundle schema {schema}, this one reads {SCHEMA}",
            path=path, fix="update the tool: pip install --upgrade .",
        )  # fmt: skip
    try:
        rows = [
            (str(r["program"]), str(r["device"]), str(r["entry"]), str(r["sha256"]))
            for r in manifest["records"]
        ]
    except (KeyError, TypeError):
        raise _bad(path, f"{MANIFEST} does not list its records") from None
    odd = next((text for row in rows for text in row if not text.isprintable()), None)
    if odd is not None:
        # It would be part of messages, and these of logs and of a proposal's text.
        raise _bad(path, f"{MANIFEST} holds {odd!r}, which is no name")
    strangers = sorted(set(file.namelist()) - {row[2] for row in rows} - {MANIFEST, SIGNATURE})
    if strangers:
        raise _bad(path, f"has an entry {strangers[0]!r} that {MANIFEST} does not list")
    return [_entry(file, row) for row in rows]


def _entry(file: zipfile.ZipFile, row: tuple[str, str, str, str]) -> Entry:
    program, device, name, digest = row
    try:
        data = file.read(name)
    except KeyError:
        return Entry(program, device, b"", f"the bundle lacks its entry {name}")
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        return Entry(
            program,
            device,
            b"",
            f"its entry differs from the manifest: {digest[:12]} → {found[:12]}",
        )
    return Entry(program, device, data)

"""Evidence files: read, verified and written.

A file is written whole or not at all (a temporary file in the same folder,
fsync, rename). Its `body` line holds the sha256 of everything else in it, so
that an edit by hand, a truncation or a merge conflict is seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from evidence import atomic
from evidence.errors import RecordError
from evidence.model import Record

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1

_BODY = re.compile(r'^ "body": "([0-9a-f]*)",?\n', re.MULTILINE)
_CONFLICT = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_REQUIRED = (
    "body",
    "build",
    "device",
    "drift",
    "inputs",
    "key",
    "key_version",
    "measured",
    "mutants",
    "outcome",
    "profile",
    "program",
    "recorded",
    "run_command",
    "runs",
    "sanitizers",
    "schema",
    "toolchain",
)


def dump(data: dict[str, Any]) -> str:
    """Return a record as the text of its file, with its body hash filled in."""
    text = json.dumps({**data, "body": ""}, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    digest = _body(text)
    return text.replace('"body": ""', f'"body": "{digest}"', 1)


def _body(text: str) -> str:
    return hashlib.sha256(_BODY.sub("", text, count=1).encode("utf-8")).hexdigest()


def read(path: Path, relative: str | None = None) -> Record:
    """Read and verify one evidence file.

    Args:
        path: The file.
        relative: Its path for messages; `path` by default.

    Raises:
        RecordError: It cannot be read or believed; the message says why.
    """
    shown = relative or str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"cannot be read: {error.strerror}", path=shown, fix="run: evidence record"
        ) from None
    return parse(data, shown, path)


def parse(data: bytes, shown: str, path: Path | None = None) -> Record:
    """Verify the bytes of an evidence file and return its record.

    Raises:
        RecordError: Not UTF-8, conflict markers, truncated, not a record, from
            a newer schema, or edited after it was recorded.
    """
    again = f"record it again: evidence record {_program_hint(shown)}"
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8 at byte {error.start}", path=shown, fix=again) from None
    try:
        document = json.loads(text)
    except RecursionError:
        raise RecordError("is nested too deep for a record", path=shown, fix=again) from None
    except ValueError as error:
        # No sound JSON has a marker at the beginning of a line, so they are
        # looked for only here.
        conflict = _CONFLICT.search(text)
        if conflict:
            line = text.count("\n", 0, conflict.start()) + 1
            raise RecordError(
                f"has a merge conflict marker {conflict.group().strip()!r}",
                path=shown,
                line=line,
                fix=f"take one side whole (git checkout --ours or --theirs), or {again}",
            ) from None
        line = getattr(error, "lineno", 1)
        if not text.endswith("}\n"):
            raise RecordError(
                "is truncated", path=shown, line=text.count("\n") + 1, fix=again
            ) from None
        raise RecordError(f"is not JSON: {error}", path=shown, line=line, fix=again) from None
    return _verify(document, text, shown, path, again)


def _verify(document: Any, text: str, shown: str, path: Path | None, again: str) -> Record:
    if not isinstance(document, dict) or "schema" not in document:
        raise RecordError("is not an evidence record: it has no schema", path=shown, fix=again)
    schema = document["schema"]
    if not isinstance(schema, int) or schema > SCHEMA:
        raise RecordError(
            f"was written by a newer tool: schema {schema}, this one reads {SCHEMA}",
            path=shown,
            fix="update the tool: pip install --upgrade .",
        )
    missing = [name for name in _REQUIRED if name not in document]
    if missing:
        raise RecordError(f"lacks {', '.join(missing)}", path=shown, fix=again)
    digest = _body(text)
    if document["body"] != digest:
        raise RecordError(
            f"was edited after it was recorded: body {str(document['body'])[:12]} → {digest[:12]}",
            path=shown,
            fix=f"undo the edit (git checkout -- {shown}), or {again}",
        )
    device = document["device"]
    if not isinstance(device, dict) or not isinstance(device.get("label"), str):
        raise RecordError("does not follow the schema at device", path=shown, fix=again)
    return Record(
        path=path,
        program=document["program"],
        device=device["label"],
        key=document["key"],
        data=document,
    )


def _program_hint(shown: str) -> str:
    parts = shown.replace("\\", "/").split("/")
    if len(parts) >= 3 and parts[-2] == "evidence":  # noqa: PLR2004
        return f"{parts[-3]}/{parts[-1].split('.')[0]}"
    return ""


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all, and make the rename durable.

    Raises:
        RecordError: The disk is full or the folder not writable; what stood
            there before still stands.
    """
    try:
        atomic.write(path, text.encode("utf-8"))
    except OSError as error:
        raise RecordError(
            f"cannot be written: {error.strerror}; what stood there is unchanged",
            path=path,
            fix="make room or mend the folder's permissions, then run the same command",
        ) from None

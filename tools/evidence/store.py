"""Evidence files: read, verified, merged and written.

A file is written whole or not at all (a temporary file in the same folder,
fsync, rename). Its `body` line holds the sha256 of everything else in it, so
that an edit by hand, a truncation or a merge conflict is seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence import values
from evidence.errors import RecordError
from evidence.model import Record

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


@dataclass(frozen=True, slots=True)
class Drift:
    """One value that changed although no input did."""

    address: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Merge:
    """What storing a new record comes to.

    Attributes:
        text: The file's new text; None if the stored file stays as it is.
        reasons: Why it is rewritten; empty if it is not.
        drift: Values that changed although no input did.
    """

    text: str | None
    reasons: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()


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
    return Record(
        path=path,
        program=document["program"],
        device=document["device"]["label"],
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
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise RecordError(
            f"cannot be written: {error.strerror}; what stood there is unchanged",
            path=path,
            fix="make room or mend the folder's permissions, then run the same command",
        ) from None


def _sync_folder(folder: Path) -> None:
    # A rename is only durable once its folder is; Windows cannot open folders.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def merge(old: Record | None, new: dict[str, Any], extra: values.Extra = ()) -> Merge:
    """Decide what storing a new record changes.

    A record of the same key replaces the stored one only if it says something
    new: an exact value changed, a measured median left its old band (see
    `left_band`), something passed that failed before (or the other way round),
    a step was added, or another compiler was used. Otherwise the stored file
    stays byte for byte.

    Args:
        old: The stored record of the same program and device, if any.
        new: The new record's document.
        extra: Named regular expressions of the program's plan.
    """
    fresh = dict(new)
    fresh["drift"] = []
    fresh["measured"] = values.measured_addresses(new, extra)
    if old is None:
        return Merge(dump(fresh), ("first record on this device",))
    if old.key != new["key"]:
        return Merge(dump(fresh), ("its inputs changed",))
    # Once seen to differ, measured for good.
    known = set(old.data["measured"]) | set(fresh["measured"])
    drift, became = _compare(old.data, fresh, known, extra)
    fresh["measured"] = sorted(known | became)
    fresh["drift"] = [{"address": d.address, "old": d.old, "new": d.new} for d in drift]
    reasons = [f"{len(drift)} values changed" if len(drift) > 1 else "a value changed"] * bool(
        drift
    )
    reasons += _steps(old.data, fresh)
    if not reasons:
        return Merge(None)
    return Merge(dump(fresh), tuple(reasons), tuple(drift))


def _compare(
    old: dict[str, Any], new: dict[str, Any], known: set[str], extra: values.Extra
) -> tuple[list[Drift], set[str]]:
    """Return what changed, and the exact addresses that turn out measured."""
    before = _comparable(old, extra)
    after = _comparable({**new, "measured": sorted(known)}, extra)
    drift: list[Drift] = []
    became: set[str] = set()
    for address in sorted(before.keys() | after.keys()):
        was, now = before.get(address), after.get(address)
        if was is None or now is None:
            drift.append(
                Drift(address, was.texts[0] if was else "absent", now.texts[0] if now else "absent")
            )
        elif was.exact and now.exact:
            if was.texts[0] != now.texts[0]:
                drift.append(Drift(address, was.texts[0], now.texts[0]))
                became.add(address)
        elif left_band(was, now.median):
            drift.append(Drift(address, f"{was.min:g} to {was.max:g}", f"{now.median:g}"))
    return drift, became


def _comparable(record: dict[str, Any], extra: values.Extra) -> dict[str, values.Value]:
    """Return the values that drift is about; steps are compared as steps."""
    found = values.of_record(record, extra)
    return {a: v for a, v in found.items() if v.source in ("run", "compile", "profile")}


def left_band(was: values.Value, median: float) -> bool:
    """Whether a new median lies outside what an old measured value allows.

    Five runs of one visit show less than the spread between visits (clocks,
    temperature, neighbours), so the old band is widened on each side by its
    own width, and by at least 2 % of its median.
    """
    slack = max(was.max - was.min, 0.02 * abs(was.median))
    return not was.min - slack <= median <= was.max + slack


def _steps(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    reasons = []
    if old["outcome"] != new["outcome"]:
        reasons.append("its outcome changed")
    for name in ("sanitizers", "mutants"):
        was = {k: v["status"] for k, v in old[name].items()}
        now = {k: v["status"] for k, v in new[name].items()}
        if was != now:
            reasons.append(f"its {name} changed")
    if _edits(old) != _edits(new):
        reasons.append("its mutants' edits changed")
    if old["profile"]["status"] != new["profile"]["status"]:
        reasons.append("its profile changed")
    if len(old["runs"]) < len(new["runs"]):
        reasons.append("it has more runs")
    if old["toolchain"].get("nvcc") != new["toolchain"].get("nvcc"):
        reasons.append("another compiler was used")
    return reasons


def _edits(record: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (m["find"], m["replace"]) for name, m in record["mutants"].items()}

"""Finished records of a recording that is not over: what a rerun continues from.

Each record is written whole as soon as its program is done. A recording that
came to its end removes them; one that was killed leaves them, and the next
takes those over that it would otherwise make again just so.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evidence import __version__, store
from evidence.errors import RecordError

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.machine import Machine
    from evidence.model import Program, Record
    from evidence.trial import Request


class Staging:
    """A folder of finished records.

    Args:
        folder: Where they lie; made when the first is written. None to keep nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def add(self, program: Program, text: str, request: str) -> None:
        """Keep a finished record.

        Args:
            program: Its program.
            text: The record's text.
            request: What `fingerprint` gave.

        Raises:
            RecordError: It cannot be written; records kept before are whole.
        """
        if self.folder is None:
            return
        document = json.dumps({"request": request, "record": text}, ensure_ascii=False)
        store.write(self._path(self.folder, program), document)

    def get(self, program: Program, request: str) -> Record | None:
        """Return a program's record, if it was made for this very request and passed."""
        if self.folder is None:
            return None
        path = self._path(self.folder, program)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["request"] != request:
                return None
            record = store.parse(document["record"].encode("utf-8"), str(path))
        except (OSError, ValueError, KeyError, TypeError, RecordError):
            return None
        # What failed is tried again: what ailed it may have been mended.
        return record if record.passed else None

    def clear(self) -> None:
        """Remove everything."""
        if self.folder is None:
            return
        if self.folder.is_symlink():
            self.folder.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _path(folder: Path, program: Program) -> Path:
        return folder / f"{program.folder}--{program.stem}.json"


def fingerprint(
    program: Program, key: str, machine: Machine, request: Request, labels: dict[str, str]
) -> str:
    """Return a hash over everything that two recordings must share to be the same."""
    plan = json.dumps(asdict(program.plan), sort_keys=True, default=str)
    document: list[Any] = [
        __version__,
        program.name,
        key,
        plan,
        asdict(request),
        machine.device.document(labels),
        machine.nvcc.version if machine.nvcc else "",
        [bool(machine.sanitizer), bool(machine.ncu)],
        machine.isolation,
    ]
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()

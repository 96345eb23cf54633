"""The one exception base of the tool.

Raised low, caught once: by the command line (printed, exit status 2) or by the
page extension (the build fails with the page's name and line).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What the system says of a disk that takes no more, whatever is written.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class EvidenceError(Exception):
    """A problem that a user can cause, with its place and its remedy.

    Args:
        message: What is wrong, with `old → new` where something changed.
        path: File the problem is in, shown relative to the project's root.
        line: One-based line in that file.
        fix: The command (or edit) that mends it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        fix: str | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else str(path).replace("\\", "/")
        self.line = line
        self.fix = fix
        super().__init__(message)

    def __str__(self) -> str:
        """Give `file:line: what is wrong - run: command`."""
        place = "" if self.path is None else f"{self.path}:{self.line or 1}: "
        remedy = "" if self.fix is None else f" — {self.fix}"
        return f"{place}{self.message}{remedy}"


class SourceError(EvidenceError):
    """A program's source breaks the contract (header, regions, includes)."""


class ConfigError(EvidenceError):
    """`pyproject.toml` or an `evidence.toml` says something impossible."""


class RecordError(EvidenceError):
    """An evidence file or a bundle cannot be believed."""


class ToolchainError(EvidenceError):
    """A compiler, a GPU or a tool that this step needs is not there."""


class MachineError(ToolchainError):
    """The machine cannot go on: the GPU is lost, a disk is full. It is no program's fault."""


class ExpressionError(EvidenceError):
    """An expression over values cannot be read or evaluated."""

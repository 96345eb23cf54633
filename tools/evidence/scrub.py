"""Keeping the machine out of what is stored: paths, users, hosts, secrets.

The recorder replaces them before anything is stored; `leaks` looks at what is
stored, on any machine, for what slipped through.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# Names that say nothing about anybody, or are words of ordinary output.
GENERIC = frozenset((
    "admin", "administrator", "app", "build", "builder", "ci", "container", "cuda", "debian",
    "default", "dev", "docker", "ec2-user", "gpu", "guest", "home", "host", "jovyan", "linux",
    "local", "localhost", "machine", "nobody", "node", "nvidia", "operator", "root", "runner",
    "server", "student", "system", "test", "ubuntu", "user", "vagrant", "vm", "workspace",
    "ada", "ampere", "blackwell", "fermi", "grace", "hopper", "kepler", "maxwell", "pascal",
    "turing", "volta", "bank", "block", "case", "count", "error", "grid", "kernel", "lane",
    "mark", "max", "mean", "memory", "min", "page", "path", "row", "sum", "tile", "time",
    "value", "warp",
))  # fmt: skip
# A path begins after white space or a sign, or right behind -I and -L.
_BEGINS = r"(?:(?<![\w.>/-])|(?<=-[IL]))"
_SHORTEST = 3  # a shorter name occurs in ordinary words too often to replace

_SECRETS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{30,}",
    r"\bAKIA[0-9A-Z]{16}\b",
    r"\bhf_[A-Za-z0-9]{30,}",
    r"\bsk-[A-Za-z0-9_-]{32,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
)
_LEAKS = re.compile(
    "|".join(
        (
            # <project>/… and the like are what scrubbing leaves; a path with
            # a placeholder in front is relative to it.
            _BEGINS + r"/(?:home|Users)/[\w.-]+",
            _BEGINS + r"/root(?=/[\w.])",
            _BEGINS + r"/(?:tmp|var/folders|private/var|var/tmp)/[\w.-]+",
            r"\b[A-Za-z]:(?:\\\\|\\)Users(?:\\\\|\\)[\w.-]+",
            *_SECRETS,
        )
    )
)
# Every leak holds one of these; looking for them first makes the usual case,
# a record without any, a hundred times faster.
_HINTS = (
    "/home/", "Users", "/root/", "/tmp/", "/var/", "PRIVATE KEY",  # noqa: S108
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "AKIA", "hf_", "sk-", "xox",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leak:
    """Something in a stored text that tells about a machine or a person."""

    line: int
    text: str


def leaks(text: str) -> list[Leak]:
    """Return every path, and every secret by its shape, in a text."""
    found: list[Leak] = []
    # Runs mostly print the same lines.
    once = "\n".join(dict.fromkeys(text.split("\n")))
    if not any(hint in once for hint in _HINTS):
        return found
    for match in _LEAKS.finditer(text):
        shown = match.group()
        if not shown.startswith("/") and "Users" not in shown:
            shown = shown[:8] + "…"  # a message must not repeat a secret
        found.append(Leak(text.count("\n", 0, match.start()) + 1, shown))
    return found


class Scrubber:
    """Replaces what must not be stored.

    Args:
        paths: (path, placeholder); longer paths win.
        names: (name, placeholder), replaced as whole words only.
    """

    def __init__(
        self, paths: Iterable[tuple[str, str]], names: Iterable[tuple[str, str]] = ()
    ) -> None:
        table: dict[str, str] = {}
        for path, shown in paths:
            for text in (path, os.path.realpath(path)):
                plain = text.rstrip("/")
                if plain.count("/") > 0 and len(plain) > 1:
                    table.setdefault(plain, shown)
        pieces = [re.escape(path) for path in sorted(table, key=len, reverse=True)]
        for name, shown in names:
            if len(name) >= _SHORTEST and name.lower() not in GENERIC and not name.isdigit():
                table.setdefault(name, shown)
                pieces.append(re.escape(name))
        self._table = table
        # Not inside another name: /tmp is not a part of /var/tmp or /tmpfs.
        joined = "|".join(pieces)
        begins = r"(?:(?<![\w.-])|(?<=-[IL]))"
        self._pattern = re.compile(rf"{begins}(?:{joined})(?![\w-]|\.\w)") if pieces else None

    def text(self, text: str) -> str:
        """Return a text with every name and path replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._table[match.group()], text)

    def data(self, value: Any) -> Any:
        """Return a JSON value with every text in it replaced; keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.data(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        return value


def of_machine(root: Path, cuda: Path | None = None) -> Scrubber:
    """Return the scrubber of this machine and user.

    Args:
        root: The project's folder.
        cuda: The toolkit's folder, if it has one of its own.
    """
    paths = [(str(root), "<project>"), (str(Path.home()), "<home>")]
    paths += [(tempfile.gettempdir(), "<tmp>")]
    if cuda is not None:
        paths.append((str(cuda), "<cuda>"))
    # Warnings of Python packages begin with where they are installed. A system's own
    # interpreter lies under /usr, which says nothing about this machine.
    if sys.prefix != sys.base_prefix:
        paths.append((sys.prefix, "<python>"))
    host = socket.gethostname()
    names = [(host, "<host>"), (host.split(".")[0], "<host>")]
    # A container may run as a user without a name.
    with contextlib.suppress(OSError, KeyError):
        names.append((getpass.getuser(), "<user>"))
    return Scrubber(paths, names)

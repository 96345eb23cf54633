"""A stranger's project, as commands open it."""

from __future__ import annotations

import atexit
import os
import secrets
from typing import TYPE_CHECKING

import click

from evidence import untrusted

if TYPE_CHECKING:
    from pathlib import Path

    from evidence.project import Project


def load(start: Path | None, *, err: bool = False) -> Project:
    """Open a stranger's project, and have nothing that it says taken for a command.

    Args:
        start: Folder of the project.
        err: Whether the job's log is standard error alone: the output has a reader.

    Raises:
        EvidenceError: Why nothing of it is run.
    """
    _mute(err=err)
    return untrusted.load(start)


def _mute(*, err: bool) -> None:
    # GitHub's runner carries out what it finds in a job's log, and messages quote names,
    # links and errors of the tree. Until the word is said again, it looks for nothing else.
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    word = secrets.token_hex(16)
    click.echo(f"::stop-commands::{word}", err=err)
    atexit.register(click.echo, f"::{word}::", err=err)

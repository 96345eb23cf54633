"""Running notebooks, and what their cells left: between the recorder and `nbdriver`."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import nbdriver, runner
from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from evidence.model import Program
    from evidence.runner import RunResult, Task

# Which packages run a notebook; their versions go into its record.
PACKAGES = ("nbclient", "ipykernel")
INSTALL = "install them: pip install '.[notebook]'"
IMAGE_BYTES = 200_000  # of one image

_RESULT = ".cells.json"


def missing() -> str:
    """Return what this Python lacks to run notebooks, as a sentence; empty for nothing."""
    lacks = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not lacks:
        return ""
    names = " and ".join(lacks)
    return f"notebooks need {names}, which {'is' if len(lacks) == 1 else 'are'} not installed"


def need(program: Program) -> None:
    """Refuse a notebook that cannot be run here; any other program is none of its business.

    Raises:
        ToolchainError: Something is not installed.
    """
    if program.language == "notebook" and (lacks := missing()):
        raise ToolchainError(lacks, path=program.relative, fix=INSTALL)


def requires(program: Program) -> tuple[str, ...]:
    """Return the packages whose versions a program's record names."""
    own = program.plan.requires
    return (*own, *PACKAGES) if program.language == "notebook" else own


def head(notebook: str, max_bytes: int) -> tuple[str, ...]:
    """Return the words that run a notebook of the run's folder."""
    # -P: the folder of that script is no place to import from.
    return (
        sys.executable, "-P", str(Path(nbdriver.__file__)), notebook, _RESULT,
        str(max_bytes), str(IMAGE_BYTES),
    )  # fmt: skip


def run(do: Callable[[Task], RunResult], todo: Task) -> RunResult:
    """Run a notebook and take in what its cells left.

    Args:
        do: Runs a task.
        todo: The notebook's, as `head` gives its words.
    """
    with tempfile.TemporaryDirectory(prefix=runner.folder_prefix()) as folder:
        path = Path(folder) / "cells.json"
        done = do(replace(todo, keep={**todo.keep, _RESULT: path}))
        if not path.is_file():
            return done
        try:
            cells = tuple(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError):
            # The notebook's own code can write there too.
            wrong = "overwrote the account of its cells"
            return replace(done, problems=(*done.problems, wrong))
        return replace(done, cells=cells)


def lines_of(run_document: Mapping[str, Any], output: Mapping[str, Any]) -> Sequence[str]:
    """Return the lines of one output of a cell of a stored run."""
    if output["kind"] in ("stdout", "stderr"):
        lines: list[str] = run_document[output["kind"]]
        return lines[output["first"] : output["first"] + output["count"]]
    return [str(line) for line in output["lines"]]

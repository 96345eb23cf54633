"""One compile step, as ninja starts it: `python -IS nvccstep.py … -- command`.

Runs the compiler in the program's folder and keeps everything that it said in
a file beside the output, so that the report is still there when ninja has
nothing to do. Narrows the depfile to the project's own files, with paths as
ninja sees them, and notes the hash of each, so that the recorder can tell
whether the output belongs to the sources it is about to vouch for.

It runs once per compile, so it imports little: pathlib, subprocess and
dataclasses alone would take longer to load than all that it does.
"""
# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH113, PTH118, PTH120, PTH123

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from evidence import lexing

_DEPENDENCY = re.compile(r"(?:\\[ #]|\$\$|[^\s\\]|\\(?!\n))+")
_CANNOT_RUN = 127  # as a shell says that a command is not there


def run(
    root: str, folder: str, source: str, output: str, command: list[str], *, must_fail: bool
) -> int:
    """Run one step.

    Args:
        root: The project's folder; ninja's working directory.
        folder: The compiler's working directory, relative to `root`.
        source: What is compiled, relative to `folder`.
        output: What is written, relative to `root`.
        command: The compiler's words.
        must_fail: Whether the program is meant not to compile; then `output`
            is an empty file that says so.

    Returns:
        The step's exit status.
    """
    result = os.path.join(root, output)
    depfile, report = f"{result}.d", f"{result}.json"
    for path in (result, depfile, report):
        _remove(path)
    os.makedirs(os.path.dirname(result), exist_ok=True)
    folder = os.path.join(root, folder)
    started = time.perf_counter()
    status, said = _compile(command, folder, f"{result}.log")
    seconds = time.perf_counter() - started
    files = _dependencies(root, folder, source, depfile)
    document = {
        "exit_status": status,
        "files": {os.path.relpath(path, folder): _hash(path) for path in files},
        "output": said.splitlines(),
        "seconds": round(seconds, 3),
    }
    # Whole or not at all: a report cut off by a kill must not be read as one.
    _write(f"{report}.part", json.dumps(document))
    os.replace(f"{report}.part", report)
    _write(depfile, render(output, [os.path.relpath(path, root) for path in files]))
    if not must_fail:
        return status
    if 0 < status < _CANNOT_RUN:
        _write(result, "")
        return 0
    # It compiles, or the compiler did not come to an end: neither is the error.
    _remove(result)
    return 1


def _compile(command: list[str], folder: str, log: str) -> tuple[int, str]:
    os.chdir(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    except OSError as error:
        return _CANNOT_RUN, f"{command[0]}: {error.strerror}\n"
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(log, "rb") as stream:
        said = stream.read().decode("utf-8", "backslashreplace")
    _remove(log)
    return status, said


def _dependencies(root: str, folder: str, source: str, depfile: str) -> list[str]:
    """Return the project's own files among what was compiled, the source first."""
    found = [os.path.normpath(os.path.join(folder, source))]
    try:
        with open(depfile, encoding="utf-8") as stream:
            text = stream.read()
    except OSError:
        return found
    inside = root.rstrip(os.sep) + os.sep
    for name in names(text):
        path = os.path.normpath(os.path.join(folder, name))
        if path.startswith(inside) and path not in found and os.path.isfile(path):
            found.append(path)
    return found


def names(depfile: str) -> list[str]:
    """Return the inputs that a depfile lists."""
    text = depfile.partition(": ")[2].replace("\\\n", " ")
    pieces = _DEPENDENCY.findall(text)
    return [p.replace("\\ ", " ").replace("\\#", "#").replace("$$", "$") for p in pieces]


def render(output: str, inputs: list[str]) -> str:
    """Return the text of a depfile."""
    words = [_escape(path) for path in (output, *inputs)]
    return f"{words[0]}: {' '.join(words[1:])}\n"


def _escape(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "\\ ").replace("#", "\\#")


def _hash(path: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.sha256(lexing.to_lf(stream.read())).hexdigest()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def main(arguments: list[str]) -> int:
    """Read the arguments that `ninjafile` wrote."""
    mode, root, folder, source, output, _, *command = arguments
    return run(root, folder, source, output, command, must_fail=mode == "must-fail")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Recording with the fake toolkit, for several test modules."""

from __future__ import annotations

from pathlib import Path

import fake_cuda
from evidence import machine, recorder, selecting, sinks, store
from evidence.document import Origin
from evidence.trial import Request

ORIGIN = Origin("0123456789abcdef0123456789abcdef01234567", dirty=False, date="2026-12-01")


class Heard:
    """A reporter that remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []

    def begin(self, what: str, total: int) -> None:
        self.steps.append(f"{what} {total}")

    def part(self, done: int, total: int, what: str) -> None:
        self.steps.append(what)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def end(self) -> None:
        pass


def record(tree, kit, *names: str, request: Request | None = None, **options):
    """Record programs of a tree; return the report and what was said."""
    project = tree.load()
    here = machine.probe(options.pop("gpu", fake_cuda.Gpu()), kit.environ)
    nvcc = here.nvcc.version if here.nvcc else ""
    everything = options.pop("everything", False)
    programs = selecting.select(project, names, "h200", nvcc, everything=everything)
    heard = Heard()
    target, part = options.pop("target", None), options.pop("part", None)
    if target is not None:
        options["sink"] = sinks.Bundle(target, part)
    report = recorder.record(
        project, programs, options.pop("machine", here), request or Request(),
        reporter=heard, where=ORIGIN, **options,
    )  # fmt: skip
    return report, heard


def stored(tree, name: str = "001-add/add") -> dict:
    """Return a stored record's document."""
    folder, _, stem = name.partition("/")
    root = next(p for p in ("kernels", "snippets") if (tree.root / p / folder).is_dir())
    return store.read(path_of(tree, folder, stem, root)).data


def path_of(tree, folder: str = "001-add", stem: str = "add", root: str = "kernels") -> Path:
    return tree.root / root / folder / "evidence" / f"{stem}.h200.json"

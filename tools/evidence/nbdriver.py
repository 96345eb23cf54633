"""Runs one notebook in a kernel of its own; started as a script, and needs no other module here.

    python nbdriver.py NOTEBOOK RESULT MAX_BYTES MAX_IMAGE_BYTES

What the cells print goes to this process's own streams, cell after cell, as if the
notebook were a program. RESULT gets what each cell left, as JSON: texts printed as
numbers of lines of those streams, everything else as it is kept. Exit status 0 only
if every cell ran without an exception.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import importlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

Outputs = list[dict[str, Any]]

_IMAGES = ("image/png", "image/jpeg")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# A cell's code is compiled under a file name with the kernel's process number in it.
_CELL_FILE = re.compile(r"[^\s\"'<>]*ipykernel_\d+/\d+\.py|(?<=\()\d{6,}\.py(?=, line \d)")
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")
_ALLOWED = "raises-exception"  # the tag of a cell that is meant to fail
_FAILED = 1


class ImageError(Exception):
    """An image that is not kept."""


def has_code(text: str) -> bool:
    """Whether there is more in a code cell than comments and blank lines."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.split("\n"))


def neutral(text: str) -> str:
    """Return a text without colours and without what differs from one kernel to the next."""
    plain = _ADDRESS.sub("0x\N{HORIZONTAL ELLIPSIS}", _CELL_FILE.sub("<cell>", _ANSI.sub("", text)))
    work = str(Path.cwd())
    return plain.replace(work, "<tmp>").replace(str(Path(work).parent), "<tmp>")


class Emitter:
    """Prints what cells printed, and counts the lines."""

    def __init__(self, image_cap: int) -> None:
        self._lines = {"stdout": 0, "stderr": 0}
        self._image_cap = image_cap

    def emit(self, outputs: Outputs) -> Outputs:
        """Print a cell's streams; return what is kept of all its outputs.

        Raises:
            ImageError: It shows an image that is too large.
        """
        kept: Outputs = []
        # Which of the two streams came first is chance: errors go last.
        streams = {"stderr": "", "stdout": ""}
        for output in outputs:
            if output["output_type"] == "stream":
                name = "stderr" if output["name"] == "stderr" else "stdout"
                streams[name] += "".join(output["text"])
                continue
            self._flush(kept, "stdout", streams)
            kept += self._rich(output)
        self._flush(kept, "stdout", streams)
        self._flush(kept, "stderr", streams)
        return kept

    def _flush(self, kept: Outputs, name: str, streams: dict[str, str]) -> None:
        text, streams[name] = neutral(streams[name]), ""
        if not text:
            return
        text += "" if text.endswith("\n") else "\n"
        count = text.count("\n")
        kept.append({"kind": name, "first": self._lines[name], "count": count})
        self._lines[name] += count
        stream = sys.stdout if name == "stdout" else sys.stderr
        stream.write(text)
        stream.flush()

    def _rich(self, output: dict[str, Any]) -> Outputs:
        if output["output_type"] == "error":
            value = neutral(output["evalue"])
            trace = neutral("\n".join(output["traceback"])).split("\n")
            return [{"kind": "error", "name": output["ename"], "value": value, "lines": trace}]
        data = output["data"]
        text = neutral("".join(data.get("text/plain", "")))
        shown = "result" if output["output_type"] == "execute_result" else "display"
        kept: dict[str, Any] = {"kind": shown, "lines": text.split("\n")}
        for kind in _IMAGES:
            if kind in data:
                kept["image"] = {"type": kind, "base64": self._image("".join(data[kind]))}
                break
        return [kept]

    def _image(self, encoded: str) -> list[str]:
        try:
            size = len(base64.b64decode(encoded))
        except binascii.Error:
            raise ImageError("shows an image that is not base64") from None
        if size > self._image_cap:
            raise ImageError(f"shows an image of {size} bytes, at most {self._image_cap} are kept")
        plain = "".join(encoded.split())
        return [plain[at : at + 96] for at in range(0, len(plain), 96)]


def main(notebook: str, result: str, max_bytes: int, max_image: int) -> int:
    """Run a notebook; see the module."""
    nb = _read(notebook)
    client = _client(nb, max_bytes)
    log = Path(os.environ["HOME"]) / "kernel.log"
    done: list[Outputs] = []
    with log.open("wb") as stream, contextlib.ExitStack() as stack:
        try:
            stack.enter_context(client.setup_kernel(stdout=stream, stderr=stream))
        except RuntimeError as error:
            said = log.read_text("utf-8", "replace").strip().split("\n")[-1]
            return _say(f"the kernel did not start: {said or error}")
        failed = _run(client, nb.cells, Emitter(max_image), done)
    Path(result).write_text(json.dumps(done), encoding="utf-8")
    return _say(failed) if failed else 0


def _read(notebook: str) -> Any:
    """Return a notebook with its code and nothing else: no other thing gets to the kernel."""
    nbformat: Any = importlib.import_module("nbformat")
    nb = nbformat.read(notebook, as_version=4)
    live = [cell for cell in nb.cells if cell.cell_type == "code" and has_code(cell.source)]
    made = nbformat.v4.new_notebook()
    for cell in live:
        tags = [tag for tag in cell.metadata.get("tags", ()) if tag == _ALLOWED]
        metadata = {"tags": tags} if tags else {}
        made.cells.append(nbformat.v4.new_code_cell(cell.source, metadata=metadata))
    return made


def _client(nb: Any, max_bytes: int) -> Any:
    nbclient: Any = importlib.import_module("nbclient")

    class Client(nbclient.NotebookClient):  # type: ignore[misc]  # its base is looked up
        """Counts what the kernel sends, and ends it before it fills the memory."""

        sent = 0

        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            content = msg["content"]
            self.sent += len(content.get("text", "")) + sum(
                len(str(value)) for value in content.get("data", {}).values()
            )
            if self.sent > max_bytes:
                _end(self, f"cell [{cell_index + 1}] printed more than {max_bytes} bytes")
            return super().process_message(msg, cell, cell_index)

    return Client(
        nb, timeout=None, startup_timeout=120, kernel_name="python3", record_timing=False,
        store_widget_state=False, resources={"metadata": {"path": str(Path.cwd())}},
    )  # fmt: skip


def _run(client: Any, cells: list[Any], emitter: Emitter, done: list[Outputs]) -> str:
    """Run cell after cell until one fails; return why it did, empty for none."""
    exceptions: Any = importlib.import_module("nbclient.exceptions")
    for index, cell in enumerate(cells):
        failed = ""
        try:
            client.execute_cell(cell, index)
        except exceptions.CellExecutionError as error:
            failed = _why(index, cell, error)
        except exceptions.DeadKernelError:
            failed = f"the kernel died in cell [{index + 1}]{_death(client)}"
        try:
            done.append(emitter.emit(cell.outputs))
        except ImageError as error:
            failed = failed or f"cell [{index + 1}] {error}"
        if failed:
            return failed
    return ""


def _why(index: int, cell: Any, error: Any) -> str:
    """Return which cell failed, on which of its lines, and with what."""
    trace: list[str] = next(
        (o["traceback"] for o in cell.outputs if o["output_type"] == "error"), []
    )
    lines = re.findall(rf"(?:Cell )?In\[{index + 1}\], line (\d+)", _ANSI.sub("", "\n".join(trace)))
    place = f", line {lines[0]}" if lines else ""
    said = neutral(f"{error.ename}: {error.evalue}").split("\n")[0]
    return f"cell [{index + 1}]{place}: {said}"


def _death(client: Any) -> str:
    status = getattr(getattr(client.km.provisioner, "process", None), "returncode", None)
    if status is None or status >= 0:
        return ""
    try:
        return f" by {signal.Signals(-status).name}"
    except ValueError:
        return f" by signal {-status}"


def _say(text: str) -> int:
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    return _FAILED


def _end(client: Any, text: str) -> NoReturn:
    """End the kernel and this process at once: what goes on would fill the memory."""
    process = client.km.provisioner.process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _say(text)
    os._exit(_FAILED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

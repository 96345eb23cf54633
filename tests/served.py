"""A real `mkdocs serve` in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from conftest import Tree

STEP = 0.05


class Served:
    """A server of a project.

    Args:
        tree: The project; its `mkdocs.yml` is there.
        environ: More of the environment.
        host: What serves it.
    """

    def __init__(
        self, tree: Tree, environ: Mapping[str, str] | None = None, host: str = "mkdocs"
    ) -> None:
        self.log_file = tree.root.parent / "serve.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        tools = str(Path(evidence.__file__).parent.parent)
        known = {"PYTHONPATH": tools, "PYTHONUNBUFFERED": "1", "NO_MKDOCS_2_WARNING": "1"}
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", host, "serve", "--dev-addr", self.address],
                cwd=tree.root, env={**os.environ, **known, **(environ or {})},
                stdout=log, stderr=log, start_new_session=True,
                # Started by nohup, the tests would hand down that it is ignored.
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
            )  # fmt: skip

    def get(self, page: str = "") -> str:
        """Return a page; the server answers once no build is going on."""
        with urllib.request.urlopen(f"http://{self.address}/{page}", timeout=30) as answer:
            return answer.read().decode("utf-8")

    def until(self, wanted: Callable[[str], bool], page: str = "", seconds: float = 20) -> float:
        """Wait until a page is as wanted; return how many seconds it took."""
        start = time.monotonic()
        html = ""
        while time.monotonic() - start < seconds:
            assert self.process.poll() is None, f"the server ended:\n{self.log()}"
            with contextlib.suppress(OSError):
                html = self.get(page)
                if wanted(html):
                    return time.monotonic() - start
            time.sleep(STEP)
        raise AssertionError(f"not within {seconds} s:\n{_shown(html)}\n{self.log()}")

    def log(self) -> str:
        """Return what the server has said."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def builds(self) -> int:
        """Return how often it has built the site."""
        return self.log().count("Building documentation...")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; return its exit status."""
        self.process.send_signal(number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.log()}") from None


def _shown(html: str) -> str:
    return html.partition('role="main"')[2].partition("<footer")[0] or html


@contextlib.contextmanager
def served(
    tree: Tree, environ: Mapping[str, str] | None = None, host: str = "mkdocs"
) -> Iterator[Served]:
    """Serve a project until its front page is there; end the server afterwards."""
    server = Served(tree, environ, host)
    try:
        server.until(lambda html: "</html>" in html)
        yield server
    finally:
        if server.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()

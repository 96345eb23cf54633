"""A site with made evidence in a real browser, for several test modules."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from conftest import Tree

ROOT = Path(__file__).parent.parent
CHROMIUM = "/usr/bin/chromium"


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium; skip where there is none, but never in CI."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        missing = f"no Chromium at {CHROMIUM}: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(tree: Tree) -> Iterator[str]:
    """Build a tree's pages as the real site is built, and serve them; yield the address."""
    shutil.copytree(ROOT / "docs/assets", tree.root / "docs/assets")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    tree.write("mkdocs.yml", config.partition("not_in_nav:")[0])
    build_command.build(load_config(str(tree.root / "mkdocs.yml")))
    handler = functools.partial(_Quiet, directory=str(tree.root / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()

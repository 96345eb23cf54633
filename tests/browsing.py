"""A browser, a server and axe for tests; a missing browser fails the run in CI."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mkdocs.commands import build as build_command
from mkdocs.config import load_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from playwright.sync_api import Browser, Page, Route

ROOT = Path(__file__).parent.parent
CHROMIUM = "/usr/bin/chromium"
SCHEMES = ("light", "dark")
WIDTHS = (1280, 320)


def missing(what: str) -> None:
    """Skip where something is not installed, but never in CI."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """Start the browser, or skip."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("no playwright: pip install playwright")
        raise
    if not Path(CHROMIUM).exists():
        missing(f"no Chromium at {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def built(folder: Path, config: str = "mkdocs.yml") -> Path:
    """Build the site itself as `serve` does: what a page shows may be stale here."""
    site = load_config(str(ROOT / config), site_dir=str(folder), strict=False)
    site.plugins.on_startup(command="serve", dirty=False)
    build_command.build(site)
    site.plugins.on_shutdown()
    site.plugins.on_startup(command="build", dirty=False)  # the next site has the same plugins
    return folder


def look(root: Path) -> str:
    """Give a made site the real one's look; return what its `mkdocs.yml` begins with."""
    for name in ("docs/assets", "overrides"):
        shutil.copytree(ROOT / name, root / name)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return config.partition("not_in_nav:")[0]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


class _Published(_Quiet):
    """Compresses text, as hosts of published sites do, and says so."""

    TEXT = frozenset({".css", ".html", ".js", ".json", ".svg", ".txt", ".xml"})

    @staticmethod
    @functools.cache
    def _compressed(path: Path) -> bytes:
        return gzip.compress(path.read_bytes())

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        accepted = self.headers.get("Accept-Encoding", "")
        if path.suffix not in self.TEXT or not path.is_file() or "gzip" not in accepted:
            super().do_GET()
            return
        body = self._compressed(path)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def served(folder: Path, *, published: bool = False) -> Iterator[str]:
    """Serve a folder; give its address.

    Args:
        folder: What is served.
        published: Compress text, as hosts of published sites do.
    """
    handler = functools.partial(_Published if published else _Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextlib.contextmanager
def opened(
    browser: Browser,
    address: str,
    *,
    before: str = "",
    routes: Mapping[str, Callable[[Route], None]] | None = None,
    **context: Any,
) -> Iterator[Page]:
    """Open a fresh page; fail on any error of its scripts and on any foreign request.

    Args:
        browser: The browser.
        address: What is opened.
        before: A script that runs before any of the page's.
        routes: What answers requests instead of the server.
        context: As for a new context of the browser.
    """
    context.setdefault("viewport", {"width": 1280, "height": 800})
    made = browser.new_context(**context)
    page = made.new_page()
    page.set_default_timeout(10_000)
    if before:
        page.add_init_script(before)
    for pattern, answer in (routes or {}).items():
        page.route(pattern, answer)
    trouble: list[str] = []
    own = "/".join(address.split("/")[:3])
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: r.url.startswith(own) or trouble.append(r.url))
    page.goto(address)
    yield page
    made.close()
    assert trouble == []


@functools.cache
def _axe() -> str:
    try:
        from axe_playwright_python.base import AXE_SCRIPT
    except ImportError:
        missing("no axe: pip install axe-playwright-python")
        raise
    return str(AXE_SCRIPT)


def violations(
    page: Page, *, leave_out: str | None = None, without: Sequence[str] = ()
) -> list[str]:
    """Return what axe finds wrong with a page, one line for each kind.

    Args:
        page: The page, loaded.
        leave_out: Elements that are not looked at.
        without: Rules that are not applied.
    """
    page.evaluate(_axe())
    found = page.evaluate(
        """async ([leaveOut, without]) => {
            const context = leaveOut ? { exclude: [[leaveOut]] } : document;
            const rules = { "target-size": { enabled: true } };
            for (const rule of without) rules[rule] = { enabled: false };
            const result = await axe.run(context, { resultTypes: ["violations"], rules });
            return [result.violations, result.passes.length];
        }""",
        [leave_out, list(without)],
    )
    assert found[1] > 10, "axe looked at nothing"
    return [
        f"{v['id']}: {v['nodes'][0]['target']} {v['nodes'][0]['failureSummary']}" for v in found[0]
    ]

"""Under `serve`, a page that breaks shows why, and ends nothing.

What our own directives lack is on the page's banner already. This is about
the rest: a file that cannot be read, an exception out of any extension, and
the host's strict mode, which would end a server as it ends a build.
"""

from __future__ import annotations

import logging
from types import MethodType
from typing import TYPE_CHECKING

from evidence.errors import EvidenceError
from evidence.pages import banners

if TYPE_CHECKING:
    from collections.abc import Callable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

    Render = Callable[[Page, MkDocsConfig, Files], None]

_LOG = logging.getLogger("mkdocs.plugins.evidence")
HOSTS = ("mkdocs", "properdocs")
"""The loggers of the hosts, each of which counts what is said to its own."""


def without_strict_mode() -> None:
    """Let warnings be said without ending the server."""
    for name in HOSTS:
        logger = logging.getLogger(name)
        for handler in list(logger.handlers):
            if type(handler).__name__ == "CountHandler":
                logger.removeHandler(handler)


def watch(page: Page, render: Render) -> None:
    """Have a page read and rendered so that whatever goes wrong ends up on it.

    Args:
        page: The page.
        render: Renders it.
    """
    wrong: list[str] = []

    def read_source(self: Page, config: MkDocsConfig) -> None:
        try:
            type(self).read_source(self, config)
        except (OSError, ValueError) as error:  # not there any more, or not UTF-8
            self.markdown, self.meta = "", {}
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            wrong.append(f"{self.file.src_uri}:1: cannot be read: {reason} — save it as UTF-8")

    def guarded(self: Page, config: MkDocsConfig, files: Files) -> None:
        try:
            render(self, config, files)
        except Exception as error:  # noqa: BLE001 - whatever an extension raises
            wrong.append(_said(self, error))
        if wrong:
            self.content = banners.failing(wrong) + (self.content or "")

    page.read_source = MethodType(read_source, page)  # type: ignore[method-assign]
    page.render = MethodType(guarded, page)  # type: ignore[method-assign]


def _said(page: Page, error: Exception) -> str:
    """Return what an exception says about a page; log where an unexpected one came from."""
    if isinstance(error, EvidenceError):
        return str(error)
    text = f"{page.file.src_uri}:1: {type(error).__name__}: {error}"
    _LOG.info("a page breaks: %s", text, exc_info=error)
    return text

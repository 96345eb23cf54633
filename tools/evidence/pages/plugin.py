"""The optional MkDocs plugin: what only the site's generator can do.

A build stops before its first page with every finding at once, as `evidence
check` lists them; `serve` watches the programs, shows what would fail as
banners on the pages instead of stopping, and can record programs again that
were edited. Pages render without it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mkdocs.config import config_options
from mkdocs.config.base import Config
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority
from mkdocs.structure.files import File

from evidence import check, project, sources
from evidence import config as settings
from evidence.errors import EvidenceError
from evidence.findings import failing, ordered
from evidence.pages import builds, guard
from evidence.pages.bindings import Pages
from evidence.pages.library import Library
from evidence.pages.serving import Serving
from evidence.pages.shelf import Shelf

if TYPE_CHECKING:
    from jinja2 import Environment
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

_NAME = "evidence"
_LOG = logging.getLogger(f"mkdocs.plugins.{_NAME}")
# Not below `mkdocs`, whose strict mode counts warnings: what `evidence check`
# lets pass with a warning, a build lets pass too.
_ASIDE = logging.getLogger(_NAME)


class _Options(Config):  # type: ignore[no-untyped-call]  # of the base
    """What can be said about it in `mkdocs.yml`.

    Attributes:
        rerun: Whether a server records programs again that are edited, where
            there are a GPU and a compiler; EVIDENCE_RERUN=1 says the same.
    """

    rerun = config_options.Type(bool, default=False)


class EvidencePlugin(BasePlugin[_Options]):  # type: ignore[no-untyped-call]  # of the base
    """Registered as `evidence` for `plugins`."""

    def __init__(self) -> None:
        self.serving: Serving | None = None
        self.pages: Pages | None = None
        self.project: project.Project | None = None
        self.nav: Navigation | None = None
        self.shelf = Shelf()

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        """Remember whether a person is watching."""
        del dirty
        self.serving = Serving() if command == "serve" else None

    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        """Add the Markdown extension, and the programs to what is watched."""
        if _NAME not in config.markdown_extensions:
            config.markdown_extensions.append(_NAME)
        options: dict[str, Any] = config.mdx_configs.setdefault(_NAME, {})
        options["on_error"] = "fail" if self.serving is None else "show"
        if self.serving is not None:
            guard.without_strict_mode()
        self.project = found = self._load(config)
        if found is not None:
            kept = [found.config.reviewed] if found.config.reviewed else []
            folders = [found.root / folder for folder in (*found.config.roots, *kept)]
            if self.serving is not None and (self.config.rerun or _asked()):
                folders.append(self.serving.rerun(found))
                _end_like_an_interrupt()
            tops = [folder for folder in folders if folder.is_dir()]
            tops.append(found.root / settings.FILE)
            config.watch += [str(top) for top in tops if str(top) not in config.watch]
        return config

    def on_pre_build(self, *, config: MkDocsConfig) -> None:
        """Check everything before the first page is rendered."""
        del config
        found = self.project
        if found is None:
            return
        programs = check.run(found, pages=False)
        judged = {(state.program.name, state.device): state for state in programs.states}
        if self.serving is None:
            self.pages = Pages(Library(found, judged))
        else:
            self.serving.look(programs.states, found.config.device)
            library = Library(found, judged, self.serving.memory)
            self.pages = Pages(library, self.serving.edits, self.serving.bound)
        pages = self.pages.check()
        findings = ordered([*programs.findings, *pages.findings])
        for finding in findings:
            if finding.severity != "error":
                _ASIDE.warning(finding.explain())
        wrong = failing(findings)
        if wrong:
            self._stop("\n".join(finding.explain() for finding in wrong))
        else:
            _LOG.info("checked %s", _counts(programs.looked_at | pages.looked_at))

    def on_files(self, files: Files, *, config: MkDocsConfig) -> None:
        """Let the build use what the check has looked up; serve the programs themselves."""
        if self.pages is None:
            return
        builds.share(files, self.pages)
        found = self.pages.library.project
        for program in found.programs:
            raw = sources.raw(found, program)
            if raw is not None and files.get_file_from_path(raw) is None:
                files.append(File.generated(config, raw, abs_src_path=str(program.path)))

    def on_pre_page(self, page: Page, *, config: MkDocsConfig, files: Files) -> Page:
        """Keep a page that breaks from ending the server."""
        del config, files
        if self.serving is not None:
            guard.watch(page, self.serving.kept.render)
        return page

    def on_nav(self, nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
        """Find out whether anything around the pages has changed."""
        if self.serving is not None:
            self.serving.kept.begin(self.pages, config, files)
            self.nav = nav
        return nav

    @event_priority(-100)
    def on_env(self, env: Environment, *, config: MkDocsConfig, files: Files) -> Environment:
        """Have finished pages kept."""
        if self.serving is not None and self.nav is not None:
            self.serving.outputs.begin(env, config, files, self.nav)
            self.serving.entries.begin(config.plugins.values())
        return env

    def on_shutdown(self) -> None:
        """End what is being recorded."""
        if self.serving is not None:
            self.serving.stop()

    # Search plugins read a page between these two.
    @event_priority(90)
    def _before_search(self, context: Any, *, page: Page, **_: Any) -> None:
        del context
        page.content = self.shelf.take(page.content or "")

    @event_priority(-90)
    def _after_search(self, context: Any, *, page: Page, **_: Any) -> None:
        del context
        page.content = self.shelf.put_back(page.content or "")

    on_page_context = CombinedEvent(_before_search, _after_search)  # type: ignore[arg-type]

    def _load(self, config: MkDocsConfig) -> project.Project | None:
        try:
            return project.load(Path(config.docs_dir).parent)
        except EvidenceError as error:
            self._stop(str(error))
            return None

    def _stop(self, text: str) -> None:
        """End a build; under `serve` only say it."""
        if self.serving is None:
            raise PluginError(f"evidence check fails:\n{text}")
        _LOG.info("a build would fail:\n%s", text)


def _counts(looked_at: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in looked_at.items())


def _asked() -> bool:
    return os.environ.get("EVIDENCE_RERUN", "") not in ("", "0")


def _end_like_an_interrupt() -> None:
    """Have a server that is told to end do so as after Ctrl-C, with its recording."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # not everywhere
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)

"""Finished pages that a server keeps: what the theme's templates made of a page.

They are used again while the page, the navigation and the theme are what they
were. Templates are compiled once: the host makes a new environment for every
build, and would compile them for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from evidence.pages.kept import configured

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation

# What every page is given, and is either the same for all or compared apart.
_COMMON = {"nav", "pages", "base_url", "extra_css", "extra_javascript", "mkdocs_version",
           "build_date_utc", "config", "page"}  # fmt: skip


class _Compiled(jinja2.BytecodeCache):
    """Compiled templates, by their source."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        code = self._code.get((bucket.key, bucket.checksum))
        if code is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


class KeptOutputs:
    """The finished pages of one server."""

    def __init__(self) -> None:
        self._compiled = _Compiled()
        self._kept: dict[str, tuple[object, str]] = {}
        self._around: object = None
        self.made: list[str] = []  # in this build

    def begin(
        self, env: jinja2.Environment, config: MkDocsConfig, files: Files, nav: Navigation
    ) -> None:
        """Begin a build, once all its pages are rendered to HTML."""
        around = (
            configured(config), config.site_url, config.copyright, dict(config.extra),
            [_item(item) for item in nav.items], _titles(files), _own_theme(config),
        )  # fmt: skip
        if around != self._around:
            self._kept.clear()
        self._around = around
        self.made = []
        outputs = self

        class Template(jinja2.Template):
            """A template that makes a page only if it is another one."""

            def render(self, *args: Any, **kwargs: Any) -> str:
                context = dict(*args, **kwargs)
                page = context.get("page")
                if page is None:
                    return super().render(context)
                return outputs.page(page.file.src_uri, _facts(self.name, context), lambda: super(
                    Template, self).render(context))  # fmt: skip

        env.bytecode_cache = self._compiled
        env.template_class = Template

    def page(self, name: str, facts: object, make: Any) -> str:
        """Return a finished page, made again if the facts are not what they were."""
        kept = self._kept.get(name)
        if kept is not None and kept[0] == facts:
            return kept[1]
        self.made.append(name)
        text: str = make()
        self._kept[name] = (facts, text)
        return text


def _facts(template: str | None, context: dict[str, Any]) -> object:
    """Return everything about a page that its template may show."""
    page = context["page"]
    return (
        template, page.content, [entry(item) for item in page.toc], str(page.title), page.meta,
        page.url, page.canonical_url, page.edit_url, page.is_homepage, page.update_date,
        _place(page.previous_page), _place(page.next_page),
        {name: _frozen(value) for name, value in context.items() if name not in _COMMON},
    )  # fmt: skip


def entry(item: Any) -> object:
    """Return what can be compared of an entry of a page's table of contents."""
    own = {name: value for name, value in vars(item).items() if name != "children"}
    return own, [entry(child) for child in item.children]


def _place(page: Any) -> object:
    return None if page is None else (str(page.title), page.url)


def _frozen(value: Any) -> object:
    """Return what can be compared of something that a plugin gives to a template."""
    if isinstance(value, list | tuple):
        return [_frozen(item) for item in value]
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    url = getattr(value, "url", None)
    # A tag, for instance. Anything else is equal only to itself.
    return (repr(value), url) if hasattr(value, "url") else value


def _titles(files: Files) -> object:
    """Return what a template may show of every page."""
    pages = [file.page for file in files.documentation_pages() if file.page is not None]
    return [(str(page.title), page.url, page.meta) for page in pages]


def _item(item: Any) -> object:
    """Return an item of the navigation with all that are under it."""
    return str(item.title), getattr(item, "url", None), [_item(i) for i in item.children or ()]


def _own_theme(config: MkDocsConfig) -> object:
    """Return what changes with the site's own templates."""
    folder = config.theme.custom_dir
    if folder is None:
        return None
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files]

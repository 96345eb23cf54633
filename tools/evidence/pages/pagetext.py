"""A page as its file holds it: front matter, and the directives in its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.pages import front, scan

if TYPE_CHECKING:
    from evidence.pages.front import Front
    from evidence.pages.scan import Scan


class PageText:
    """A page: what it says about itself, and its directives.

    Args:
        path: Relative to the project's root, forward slashes.
        text: The page, or what a host made of it.
        file: The page as its file holds it, if `text` may lack the front matter.

    Attributes:
        front: Its front matter.
        first_line: The line of the file on which its text begins.
        scan: Its directives.
    """

    __slots__ = ("_made_of", "first_line", "front", "path", "scan")

    def __init__(self, path: str, text: str, file: PageText | None = None) -> None:
        self.path = path
        self._made_of: object = (path, text, file)
        self.front: Front
        self.front, body = front.split(text)
        if file is not None:
            self.front = file.front
        self.first_line = self.front.first_line
        self.scan: Scan = scan.scan(body, self.first_line)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PageText) and self._made_of == other._made_of

    def __hash__(self) -> int:
        return hash(self._made_of)

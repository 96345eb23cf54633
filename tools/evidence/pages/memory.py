"""What was computed in the last build and is asked for again in this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class Memory:
    """Results of pure functions; what a whole build did not ask for is forgotten."""

    def __init__(self) -> None:
        self._before: dict[Hashable, Any] = {}
        self._now: dict[Hashable, Any] = {}

    def turn(self) -> None:
        """Begin a build."""
        self._before, self._now = self._now, {}

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what a key stands for, made if it is not known.

        Args:
            key: Everything that the result depends on.
            make: Makes it.
        """
        if key not in self._now:
            known = key in self._before
            self._now[key] = self._before[key] if known else make()
        value: T = self._now[key]
        return value

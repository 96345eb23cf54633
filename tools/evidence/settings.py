"""`evidence.toml`: what cannot be said in a program's header.

One file beside the programs, one table per program. A program that needs none
has none; every setting has a default.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from evidence.errors import ConfigError
from evidence.model import SANITIZERS, Expectation, Mutant, Plan, Profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from evidence.config import Config
    from evidence.model import Language

FILE = "evidence.toml"

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_TABLE_LINE = re.compile(r"^\s*\[+\s*\"?([\w-]+)")


class Settings:
    """One `evidence.toml`, read.

    Args:
        text: The file's text.
        relative: Its path for messages.
        config: The project's defaults.

    Raises:
        ConfigError: It is not TOML.
    """

    def __init__(self, text: str, relative: str, config: Config) -> None:
        self.relative = relative
        self._config = config
        self._lines = text.splitlines()
        try:
            self._tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            raise ConfigError(
                f"not readable as TOML: {error}",
                path=relative,
                line=int(line.group(1)) if line else 1,
                fix="mend the file",
            ) from None

    @property
    def stems(self) -> set[str]:
        """Return the programs the file speaks of."""
        return set(self._tables)

    def line_of(self, word: str) -> int:
        """Return the first line that holds `word` as a table or a value."""
        for number, line in enumerate(self._lines, 1):
            match = _TABLE_LINE.match(line)
            if (match and match.group(1) == word) or f'"{word}"' in line:
                return number
        return 1

    def plan(self, stem: str, language: Language = "cuda") -> Plan:
        """Return the plan of one program.

        Raises:
            ConfigError: A setting is unknown, has an impossible value, or says
                nothing about a program of this language.
        """
        table = self._tables.get(stem, {})
        reader = _Reader(self, stem, dict(table) if isinstance(table, dict) else {"": table})
        return reader.plan(self._config, language)


def default_plan(config: Config, language: Language = "cuda") -> Plan:
    """Return the plan of a program without an `evidence.toml`."""
    return Plan(runs=_runs(config, language), timeout=config.timeout)


def _runs(config: Config, language: Language) -> int:
    # A notebook is a walk through what programs measure: once, if nothing else is said.
    return 1 if language == "notebook" else config.runs


class _Reader:
    """Takes the settings out of one table one by one; what is left is unknown."""

    def __init__(self, settings: Settings, name: str, table: dict[str, Any]) -> None:
        self.settings = settings
        self.name = name
        self.table = table

    def bad(self, message: str, fix: str = "mend the table") -> ConfigError:
        line = self.settings.line_of(self.name.split(".")[0])
        return ConfigError(
            f"[{self.name}] {message}", path=self.settings.relative, line=line, fix=fix
        )

    def take(self, key: str, default: Any, good: Callable[[Any], bool], must: str) -> Any:
        value = self.table.pop(key, default)
        if not good(value):
            raise self.bad(f"{key} = {value!r}, but it must be {must}")
        return value

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self.take(key, list(default), _is_words, "a list of texts")
        return tuple(value)

    def text(self, key: str, default: str = "") -> str:
        value: str = self.take(key, default, lambda v: isinstance(v, str), "a text")
        return value

    def flag(self, key: str) -> bool:
        value: bool = self.take(key, False, lambda v: isinstance(v, bool), "true or false")
        return value

    def number(self, key: str, default: float) -> float:
        return float(self.take(key, default, _is_positive, "a number above 0"))

    def whole(self, key: str, default: int) -> int:
        return int(
            self.take(
                key,
                default,
                lambda v: _is_positive(v) and isinstance(v, int),
                "a whole number above 0",
            )
        )

    def finish(self) -> None:
        if self.table:
            names = ", ".join(sorted(self.table))
            raise self.bad(f"unknown setting: {names}", "remove it or correct its name")

    def plan(self, config: Config, language: Language) -> Plan:
        if language == "notebook":
            self.no_notebook()
        sanitizers = self.words("sanitizers", SANITIZERS)
        self.known_tools(sanitizers)
        made = Plan(
            runs=self.whole("runs", _runs(config, language)),
            timeout=self.number("timeout", config.timeout),
            max_output_bytes=self.whole("max_output_bytes", 1_000_000),
            quick=self.words("quick"),
            sanitizers=sanitizers,
            sanitizer_timeout=self.number("sanitizer_timeout", 300.0),
            inputs=self.words("inputs"),
            requires=self.words("requires"),
            profile=self.profile(),
            mutants=self.mutants(),
            expect=self.expectation(),
            values=self.values(),
            grade=self.words("grade"),
            allow_nan=self.flag("allow_nan"),
        )
        self.finish()
        return made

    def no_notebook(self) -> None:
        for key in ("sanitizers", "profile", "quick", "grade"):
            if key in self.table:
                raise self.bad(f"{key} is not for notebooks", "remove it")

    def known_tools(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in SANITIZERS:
                raise self.bad(
                    f"unknown sanitizer {name!r}", f"choose among {', '.join(SANITIZERS)}"
                )

    def profile(self) -> Profile | None:
        table = self.table.pop("profile", None)
        if table is None:
            return None
        if not isinstance(table, dict):
            raise self.bad("profile must be a table with metrics")
        inner = _Reader(self.settings, f"{self.name}.profile", dict(table))
        made = Profile(
            metrics=inner.words("metrics"),
            args=inner.words("args"),
            runs=inner.whole("runs", 3),
            kernels=inner.words("kernels"),
        )
        if not made.metrics:
            raise inner.bad("asks for no metric", 'add metrics = ["dram__bytes_read.sum"]')
        inner.finish()
        return made

    def mutants(self) -> tuple[Mutant, ...]:
        tables = self.table.pop("mutant", [])
        if not isinstance(tables, list):
            raise self.bad(f"mutant must be written [[{self.name}.mutant]]")
        made: dict[str, Mutant] = {}
        for table in tables:
            inner = _Reader(self.settings, f"{self.name}.mutant", dict(table))
            mutant = inner.mutant()
            if mutant.name in made:
                raise inner.bad(f"two mutants are named {mutant.name}", "rename one")
            made[mutant.name] = mutant
        if made and all(mutant.survives for mutant in made.values()):
            raise self.bad(
                "every mutant is said to survive, so none shows what the gate notices",
                "add one that it rejects",
            )
        return tuple(made.values())

    def mutant(self) -> Mutant:
        name = self.text("name")
        if not _NAME.fullmatch(name):
            raise self.bad(f"name = {name!r}, but it must match [a-z][a-z0-9-]*")
        sanitizers = self.words("sanitizers")
        self.known_tools(sanitizers)
        mutant = Mutant(
            name=name,
            find=self.text("find"),
            replace=self.text("replace"),
            why=self.text("why"),
            sanitizers=sanitizers,
            survives=self.flag("survives"),
        )
        if not mutant.find or mutant.find == mutant.replace:
            raise self.bad(f"mutant {name} changes nothing", "give find and a different replace")
        if mutant.survives and not mutant.why.strip():
            raise self.bad(f"mutant {name} is said to survive, but not why", 'add why = "…"')
        self.finish()
        return mutant

    def expectation(self) -> Expectation:
        written = self.table.pop("expect", "success")
        value = {written: True} if isinstance(written, str) else written
        if not isinstance(value, dict):
            raise self.bad(f"expect = {written!r}, but it must be a text or a table")
        inner = _Reader(self.settings, f"{self.name}.expect", dict(value))
        text = inner.text("text")
        kinds = {"success", "compile-error", "timeout", "exit", "sanitizer"} & set(inner.table)
        if len(kinds) != 1:
            raise self.bad(
                f"expect = {written!r} does not say one way to end",
                'write "compile-error", "timeout", { exit = 1 } or { sanitizer = "memcheck" }',
            )
        kind = kinds.pop()
        if kind == "exit":
            made = Expectation("exit", status=inner.whole("exit", 1), text=text)
        elif kind == "sanitizer":
            tool = inner.text("sanitizer")
            inner.known_tools((tool,))
            made = Expectation("sanitizer", tool=tool, text=text)
        else:
            inner.table.pop(kind)
            made = Expectation(kind, text=text)  # type: ignore[arg-type]
        inner.finish()
        return made

    def values(self) -> tuple[tuple[str, str], ...]:
        table = self.table.pop("values", {})
        if not isinstance(table, dict):
            raise self.bad("values must be a table of name = regular expression")
        for name, pattern in table.items():
            self.one_group(name, pattern)
        return tuple(sorted(table.items()))

    def one_group(self, name: str, pattern: Any) -> None:
        try:
            groups = re.compile(pattern).groups
        except (re.error, TypeError) as error:
            raise self.bad(f"values.{name} is no regular expression: {error}") from None
        if groups != 1:
            raise self.bad(f"values.{name} has {groups} groups, but it must have one")


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0

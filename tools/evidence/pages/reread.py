"""Which sections have to be read again, because what they stand on changed."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence.findings import Finding
from evidence.pages import grounds, headings, shown
from evidence.pages.ruled import Ruling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evidence.pages.grounds import Change, Ground, Key, State
    from evidence.pages.headings import Section
    from evidence.pages.pagetext import PageText
    from evidence.pages.reviews import PageReviews, Reviews, States
    from evidence.pages.shown import Shown

_MOST = 6  # things named in one finding


@dataclass(slots=True)
class Standing:
    """A section with what it stands on.

    Attributes:
        section: The section.
        grounds: What it stands on, in order of appearance.
        doubtful: Something on it could not be looked up.
    """

    section: Section
    grounds: dict[Key, Ground] = field(default_factory=dict)
    doubtful: bool = False

    @property
    def name(self) -> str:
        """Return the section's name."""
        return self.section.name


@dataclass(frozen=True, slots=True)
class Judged:
    """A section compared with what it was last read against.

    Attributes:
        standing: The section.
        states: What is kept of its grounds, under whatever section's name.
        changed: What it stands on that is another now.
        new: What it was never read against.
        moved: Something of this is kept under another section's name.
    """

    standing: Standing
    states: States
    changed: tuple[tuple[Ground, Change], ...]
    new: tuple[Ground, ...]
    moved: bool

    @property
    def reread(self) -> bool:
        """Whether it has to be read again."""
        return bool(self.changed or self.new)


def standing(page: PageText, items: Sequence[Shown]) -> tuple[Standing, ...]:
    """Return the sections of a page that stand on something.

    Args:
        page: The page.
        items: What its directives come to.
    """
    sections = headings.sections(page.scan.headings, page.first_line)
    starts = [section.line for section in sections]
    found: dict[str, Standing] = {}
    for item, what in zip(page.scan.items, items, strict=True):
        section = sections[max(bisect_right(starts, item.line) - 1, 0)]
        here = found.setdefault(section.name, Standing(section))
        here.doubtful |= _doubtful(what)
        here.grounds |= {ground.key: ground for ground in grounds.of(what)}
    return tuple(s for s in found.values() if s.grounds or s.doubtful)


def _doubtful(what: Shown) -> bool:
    if isinstance(what, Ruling) and what.claim is not None:
        return _doubtful(what.claim)
    if isinstance(what, shown.Claim):
        return any(verdict.holds == "not measured" for verdict in what.verdicts)
    return isinstance(what, shown.Failed)


def judge(kept: PageReviews, standings: Iterable[Standing]) -> list[Judged]:
    """Compare the sections of a page with what they were last read against.

    A heading may have been renamed, put in or taken out: what is kept under
    the name of a section that no longer stands on it counts for another one.
    """
    sections = {s.name: s for s in standings}
    loose: dict[Key, list[State]] = {}
    for name, states in kept.states.items():
        uses = sections[name].grounds if name in sections else {}
        for key in states.keys() - uses.keys():
            loose.setdefault(key, []).append(states[key])
    return [_judge(s, kept.states.get(s.name, {}), loose) for s in sections.values()]


def _judge(standing: Standing, own: States, loose: dict[Key, list[State]]) -> Judged:
    states: States = {}
    changed: list[tuple[Ground, Change]] = []
    new: list[Ground] = []
    for key, ground in standing.grounds.items():
        known = [own[key]] if key in own else loose.get(key, [])
        differ = [(ground.change(state), state) for state in known]
        if not known:
            new.append(ground)
            continue
        change, states[key] = next((d for d in differ if d[0] is None), differ[0])
        if change is not None:
            changed.append((ground, change))
    moved = not states.keys() <= own.keys()
    return Judged(standing, states, tuple(changed), tuple(new), moved)


def findings(reviews: Reviews, path: str, standings: Iterable[Standing]) -> Iterator[Finding]:
    """Yield a finding for every section of a page that has to be read again."""
    name = reviews.name(path)
    if name is None:
        return
    kept = reviews.page(name)
    yield from kept.broken.values()
    for judged in judge(kept, standings):
        # What cannot be looked up is reported as such; reading it can wait for that.
        due = judged.changed if judged.standing.doubtful else judged.reread
        if due and judged.standing.name not in kept.broken:
            yield _finding(path, judged)


def _finding(path: str, judged: Judged) -> Finding:
    section = judged.standing.section
    fix = f"read it again, then run: evidence reviewed {path}#{section.name}"
    if not judged.changed:
        what = _listed([ground.label for ground in judged.new])
        message = f"section `{section.name}` was never read against {what}"
        return Finding("reread", path, section.line, message, fix)
    start = f"section `{section.name}` was last read against another"
    if len(judged.changed) == 1 and not judged.new:
        [(ground, (old, new))] = judged.changed
        return Finding("reread", path, section.line, f"{start} {ground.label}", fix, old, new)
    return Finding("reread", path, section.line, f"{start} {_listed(differences(judged))}", fix)


def differences(judged: Judged) -> list[str]:
    """Return in words all that differs from what a section was last read against."""
    changed = [f"{ground.label} ({old} → {new})" for ground, (old, new) in judged.changed]
    return [*changed, *(f"{ground.label} (new)" for ground in judged.new)]


def _listed(what: list[str]) -> str:
    more = len(what) - _MOST
    return ", ".join(what[:_MOST]) + (f", and {more} more" if more > 0 else "")


def orphans(reviews: Reviews, pages: Mapping[str, set[str] | None]) -> Iterator[Finding]:
    """Yield a finding for every review of a section that is gone.

    Args:
        reviews: All that is kept.
        pages: By path of each page, the sections that stand on something; None
            if the page cannot be read.
    """
    sections = {reviews.name(path): names for path, names in pages.items()}
    for name, section, path in reviews.all():
        known = sections.get(name, set())
        if known is not None and section not in known:
            message = f"is the review of section `{section}` of {name}.md, which stands on nothing"
            if name not in sections:
                message = f"is the review of a section of {name}.md, and there is no such page"
            yield Finding(
                "orphaned", path, 1, message, "run: evidence reviewed", severity="warning"
            )


def mark(
    reviews: Reviews, name: str, standings: Sequence[Standing], wanted: set[str]
) -> list[Judged]:
    """Note that sections of a page were read against what they stand on now.

    A section that need not be read again keeps what is known of it, so that
    bands do not creep. What is kept of sections that are gone is removed,
    unless another section's state of being read rests on it.

    Returns:
        The sections that had to be read again.
    """
    kept = reviews.page(name)
    judged = {j.standing.name: j for j in judge(kept, standings)}
    chosen = {n: j for n, j in judged.items() if n in wanted and not j.standing.doubtful}
    resting = {
        key
        for n, j in judged.items()
        if n not in chosen
        for key in j.states.keys() - kept.states.get(n, {}).keys()
    }
    for n, j in chosen.items():
        states = dict(j.states)
        if j.reread or n in kept.broken:
            states = {key: ground.state() for key, ground in j.standing.grounds.items()}
        before = kept.states.get(n, {})
        rest = {key: before[key] for key in (before.keys() & resting) - states.keys()}
        reviews.write(name, n, states | rest)
    for n in (kept.states.keys() | kept.broken.keys()) - judged.keys():
        if not kept.states.get(n, {}).keys() & resting:
            reviews.remove(name, n)
    return [j for j in chosen.values() if j.reread]


def settled(kept: PageReviews, standings: Sequence[Standing]) -> set[str]:
    """Return the sections that need no reading, and whose reviews lie under another name."""
    return {j.standing.name for j in judge(kept, standings) if j.moved and not j.reread}

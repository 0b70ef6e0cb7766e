"""Rights that a simulation and a run need, and which of them the principals lack.

A missing right blocks if a step cannot work without it; otherwise a warning says what happens. A
right that a cluster does not report is not taken for a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mirrors.domain.failover.plan_types import Finding
from mirrors.domain.failover.preconditions import Asked, FencePicture, Rights, Side

_SHOWN = 5
_FALLBACK = {
    "webhook": "the webhook",
    "command": "the command",
    "person": "a person, who keeps producers out and confirms it",
}


def rights_blockers(
    asked: Asked, source: Rights | None, target: Rights | None
) -> Iterator[Finding]:
    if target is not None:
        yield from _on_target(asked, target)
    if source is None:
        return
    for name in _lacking(source.topics, asked.topics, "READ"):
        words = (
            f"{_who(source)} may not read the topic {name}: it is copied no further, so a "
            "switchover never drains it, and a simulation cannot compare it. Grant Read on it."
        )
        yield _finding(name, source, words, "source")


def _on_target(asked: Asked, target: Rights) -> Iterator[Finding]:
    there = [name for name in asked.remote_topics if name not in target.absent]
    for name in _lacking(target.topics, there, "READ"):
        words = (
            f"{_who(target)} may not read the topic {name}: no group can be set there, and no "
            "simulation can look at it. Grant Read on it."
        )
        yield _finding(name, target, words, "target")
    for name in _lacking(target.groups, asked.groups, "READ"):
        words = f"{_who(target)} may not set the group {name}. Grant Read on that group."
        yield _finding(name, target, words, "target")
    for _ in _lacking(target.groups, [asked.throwaway], "READ"):
        words = (
            f"{_who(target)} may not use groups of the prefix {asked.throwaway}: no simulation can "
            "start its readers, and only what was simulated is done for real. Grant Read and "
            "Delete on that prefix."
        )
        yield _finding(asked.throwaway, target, words, "target")
    if lacks := _keeping(asked.kept_in, target):
        words = (
            f"{_who(target)} may not {' or '.join(lacks)} the topic {asked.kept_in}, in which a "
            "run keeps where both sides part: it would stop there, behind the fence. Grant Create, "
            "Read and Write on it."
        )
        yield _finding(asked.kept_in, target, words, "target")


def rights_warnings(
    asked: Asked, source: Rights | None, target: Rights | None
) -> Iterator[Finding]:
    for side, rights in _sides(source, target):
        if rights.trouble:
            words = (
                f"What may be done on {rights.alias} could not be asked, so a right may be missing "
                f"without a word of it here: {rights.trouble}"
            )
            yield Finding(code="rights_unknown", where=rights.alias, sentence=words, page=side)
    if target is None:
        return
    usable = [name for name in asked.groups if "READ" in target.groups.get(name, ())]
    if lacking := _lacking(target.groups, usable, "DELETE"):
        words = (
            f"{_who(target)} may not delete {_names(lacking)}: an abort could not take away the "
            "offsets that the run made where there were none. Grant Delete on the groups."
        )
        yield _finding("groups", target, words, "target")
    throwaway = target.groups.get(asked.throwaway, frozenset())
    if "READ" in throwaway and "DELETE" not in throwaway:
        words = (
            f"{_who(target)} may not delete groups of the prefix {asked.throwaway}: a simulation "
            "leaves its throw-away groups behind. Grant Delete on that prefix."
        )
        yield _finding(asked.throwaway, target, words, "target")


def fence_warnings(fence: FencePicture, *, source: str) -> Iterator[Finding]:
    """Yield warnings about the fence. `source` is its alias."""
    if fence.how == "acl" and fence.refused:
        words = (
            f"Access rules cannot fence {source}: {fence.refused} The run goes on with "
            f"{_FALLBACK[fence.fallback]}."
        )
        yield Finding(code="fence", where=source, sentence=words, page="source")
    if not fence.bare:
        return
    yield Finding(
        code="open_topics", where=source, sentence=_open_words(fence, source), page="source"
    )


def _open_words(fence: FencePicture, source: str) -> str:
    known = "" if fence.everybody else " (its brokers do not tell to what)"
    words = (
        f"No access rule covers {_names(fence.bare)} on {source}, where "
        f"allow.everyone.if.no.acl.found is set{known}: the first rule of such a topic shuts out "
        "all its readers, our own copying too."
    )
    if fence.how != "acl" or fence.refused:
        done = " Who fences by hand allows the readers first."
    elif fence.everybody:
        done = " The fence makes a rule beside its denial that keeps them open; by hand, do so too."
    else:
        done = f" So the fence makes no rule, and the run goes on with {_FALLBACK[fence.fallback]}."
    return f"{words}{done} A rule that allows each topic's readers mends it."


def _keeping(name: str, target: Rights) -> list[str]:
    may = target.topics.get(name)
    if not name or may is None:
        return []
    lacks = [word for word in ("read", "write") if word.upper() not in may]
    if name in target.absent and "CREATE" not in may | (target.cluster or frozenset()):
        lacks.insert(0, "create")
    return lacks


def _lacking(
    known: Mapping[str, frozenset[str]], names: Iterable[str], operation: str
) -> list[str]:
    """Return the names, of those whose rights are known, on which the operation is not granted."""
    return [name for name in names if name in known and operation not in known[name]]


def _sides(source: Rights | None, target: Rights | None) -> Iterator[tuple[Side, Rights]]:
    if source is not None:
        yield "source", source
    if target is not None:
        yield "target", target


def _who(rights: Rights) -> str:
    return f"The principal that connects to {rights.alias}"


def _finding(name: str, rights: Rights, words: str, side: Side) -> Finding:
    where = lacking_where(name, rights.alias)
    return Finding(code="rights", where=where, sentence=words, page=side)


def lacking_where(name: str, alias: str) -> str:
    """Return the place of the finding; both clusters may have a resource of that name."""
    return f"{name} on {alias}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


# Sentences that are kept.
_MOST = 20


def lacking_rights(plan: Mapping[str, Any]) -> list[str]:
    """Return the sentences of a plan (as JSON) about rights, blockers first."""
    rows = (*plan["blockers"], *plan["warnings"])
    return [row["sentence"] for row in rows if row["code"] in ("rights", "not_described")][:_MOST]

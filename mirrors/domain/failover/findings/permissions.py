"""Rights that a simulation and a run need, and which of them the principals lack.

A missing right blocks if a step cannot work without it; otherwise a warning says what happens. A
right that a cluster does not report is not taken for a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mirrors.domain.failover.plan_types import Finding
from mirrors.domain.failover.preconditions import CheckedNames, FenceSupport, Permissions, Side

_SHOWN = 5
_FALLBACK = {
    "webhook": "the webhook",
    "command": "the command",
    "person": "a person, who stops the producers and confirms it",
}


def permission_blockers(
    checked: CheckedNames, source: Permissions | None, target: Permissions | None
) -> Iterator[Finding]:
    if target is not None:
        yield from _on_target(checked, target)
    if source is None:
        return
    for name in _lacking(source.topics, checked.topics, "READ"):
        text = (
            f"{_who(source)} lacks Read on the topic {name}: replication stops, so a switchover "
            "never drains it, and a simulation cannot compare it. Grant Read on it."
        )
        yield _finding(name, source, text, "source")
    if target is None:
        return
    there = [name for name in checked.remote_topics if name not in target.absent]
    for name in _lacking(target.topics, there, "WRITE"):
        text = (
            f"{_who(target)} lacks Write on the topic {name}: replication stops, so a switchover "
            "never drains it. Grant Write on it."
        )
        yield _finding(name, target, text, "target")


def _on_target(checked: CheckedNames, target: Permissions) -> Iterator[Finding]:
    there = [name for name in checked.remote_topics if name not in target.absent]
    for name in _lacking(target.topics, there, "READ"):
        text = (
            f"{_who(target)} lacks Read on the topic {name}: no group offset can be set in it, and "
            "no simulation can read it. Grant Read on it."
        )
        yield _finding(name, target, text, "target")
    for name in _lacking(target.groups, checked.groups, "READ"):
        text = (
            f"{_who(target)} lacks Read on the group {name}, so its offsets cannot be set. Grant "
            "Read on it."
        )
        yield _finding(name, target, text, "target")
    for _ in _lacking(target.groups, [checked.temporary_groups], "READ"):
        text = (
            f"{_who(target)} lacks Read on groups with the prefix {checked.temporary_groups}: a "
            "simulation cannot use its temporary groups, and a failover needs a simulation. Grant "
            "Read and Delete on that prefix."
        )
        yield _finding(checked.temporary_groups, target, text, "target")
    if lacks := _lacking_to_store(checked.divergence_topic, target):
        text = (
            f"{_who(target)} lacks {' and '.join(lacks)} on the topic {checked.divergence_topic}, "
            "which stores the divergence points: a run would stop after the fence. Grant Create, "
            "Read and Write on it."
        )
        yield _finding(checked.divergence_topic, target, text, "target")


def permission_warnings(
    checked: CheckedNames, source: Permissions | None, target: Permissions | None
) -> Iterator[Finding]:
    for side, rights in _sides(source, target):
        if rights.trouble:
            text = (
                f"Cannot read the permissions on {rights.alias}, so missing ones are not listed "
                f"here: {rights.trouble}"
            )
            yield Finding(code="rights_unknown", where=rights.alias, sentence=text, page=side)
    if target is None:
        return
    usable = [name for name in checked.groups if "READ" in target.groups.get(name, ())]
    if lacking := _lacking(target.groups, usable, "DELETE"):
        text = (
            f"{_who(target)} lacks Delete on {_names(lacking)}: an abort could not delete the "
            "offsets that the run created. Grant Delete on the groups."
        )
        yield _finding("groups", target, text, "target")
    temporary_groups = target.groups.get(checked.temporary_groups, frozenset())
    if "READ" in temporary_groups and "DELETE" not in temporary_groups:
        text = (
            f"{_who(target)} lacks Delete on groups with the prefix {checked.temporary_groups}: a "
            "simulation cannot delete its temporary groups. Grant Delete on that prefix."
        )
        yield _finding(checked.temporary_groups, target, text, "target")


def fence_warnings(fence: FenceSupport, *, source: str) -> Iterator[Finding]:
    """Yield warnings about the fence. `source` is its alias."""
    if fence.how == "acl" and fence.refused:
        text = (
            f"ACLs cannot fence {source}: {fence.refused} The run uses "
            f"{_FALLBACK[fence.fallback]} instead."
        )
        yield Finding(code="fence", where=source, sentence=text, page="source")
    if not fence.bare:
        return
    yield Finding(
        code="open_topics", where=source, sentence=_no_acl_sentence(fence, source), page="source"
    )


def _no_acl_sentence(fence: FenceSupport, source: str) -> str:
    known = "" if fence.everybody else " (its brokers do not report the value)"
    text = (
        f"No ACL covers {_names(fence.bare)} on {source}, where "
        f"allow.everyone.if.no.acl.found is set{known}: the first ACL of such a topic denies all "
        "its readers, also this flow."
    )
    if fence.how != "acl" or fence.refused:
        done = " If you fence manually, allow the readers first."
    elif fence.everybody:
        done = " The fence adds an ACL that allows them; if you fence manually, add one too."
    else:
        done = f" So the fence adds no ACL, and the run uses {_FALLBACK[fence.fallback]} instead."
    return f"{text}{done} To fix it, add an ACL that allows the readers of each topic."


def _lacking_to_store(name: str, target: Permissions) -> list[str]:
    may = target.topics.get(name)
    if not name or may is None:
        return []
    lacks = [name for name in ("Read", "Write") if name.upper() not in may]
    if name in target.absent and "CREATE" not in may | (target.cluster or frozenset()):
        lacks.insert(0, "Create")
    return lacks


def _lacking(
    known: Mapping[str, frozenset[str]], names: Iterable[str], operation: str
) -> list[str]:
    """Return the names, of those whose rights are known, on which the operation is not granted."""
    return [name for name in names if name in known and operation not in known[name]]


def _sides(
    source: Permissions | None, target: Permissions | None
) -> Iterator[tuple[Side, Permissions]]:
    if source is not None:
        yield "source", source
    if target is not None:
        yield "target", target


def _who(rights: Permissions) -> str:
    return f"The principal that connects to {rights.alias}"


def _finding(name: str, rights: Permissions, text: str, side: Side) -> Finding:
    where = where_missing(name, rights.alias)
    return Finding(code="rights", where=where, sentence=text, page=side)


def where_missing(name: str, alias: str) -> str:
    """Return `where` of the finding; both clusters may have a resource of that name."""
    return f"{name} on {alias}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


# Sentences that are kept.
_MOST = 20


def missing_permissions(plan: Mapping[str, Any]) -> list[str]:
    """Return the sentences of a plan (as JSON) about rights, blockers first."""
    rows = (*plan["blockers"], *plan["warnings"])
    return [row["sentence"] for row in rows if row["code"] in ("rights", "not_described")][:_MOST]

"""The picture of one application, and what crosses its boundary."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from mirrors.domain.failover.plan_types import FailoverSnapshot, Finding
from mirrors.domain.failover.preconditions import TargetTopics
from mirrors.domain.failover.scope import Scope, ScopeNames

_NAMED = 5


def within(picture: FailoverSnapshot, scope: Scope) -> FailoverSnapshot:
    """Return the picture of the scope alone, with the findings at its boundary.

    What is fenced, drained, set and verified follows from the picture's partitions and groups.
    """
    names = ScopeNames(scope)
    rows = tuple(row for row in picture.partitions if names.has_topic(row.topic))
    readers = {
        group.group: {row.topic for row in group.group_partitions} for group in picture.groups
    }
    inside = [one for one in picture.groups if names.has_group(one.group, readers[one.group])]
    found = [] if rows else [_empty(picture.flow)]
    groups = tuple(
        dataclasses.replace(
            group,
            group_partitions=tuple(
                row for row in group.group_partitions if names.has_topic(row.topic)
            ),
        )
        for group in inside
    )
    remote = {row.remote_topic for row in rows}
    seen = picture.target_topics
    return dataclasses.replace(
        picture,
        partitions=rows,
        groups=groups,
        deleted_topics=tuple(filter(names.has_topic, picture.deleted_topics)),
        left_behind=tuple(one for one in picture.left_behind if names.has_topic(one.topic)),
        accepted_losses=tuple(one for one in picture.accepted_losses if names.has_topic(one.topic)),
        target_topics=None if seen is None else _of_topics(seen, remote),
        scope=scope,
        boundary=(*found, *boundary(picture.flow, readers, scope)),
    )


def _of_topics(seen: TargetTopics, remote: set[str]) -> TargetTopics:
    """Findings that name no topic, such as those about ACLs, are kept."""
    return dataclasses.replace(
        seen,
        drifted=tuple(row for row in seen.drifted if row.name in remote),
        missing=tuple(name for name in seen.missing if name in remote),
        too_few_partitions=tuple(row for row in seen.too_few_partitions if row[0] in remote),
    )


def boundary(flow: str, readers: Mapping[str, Collection[str]], scope: Scope) -> Iterator[Finding]:
    """Yield groups that read on both sides, and groups outside that read topics of the scope.

    `readers`: the topics of each group. `flow`: its name, such as `primary->backup`.
    """
    names = ScopeNames(scope)
    source, _, target = flow.partition("->")
    for group, topics in readers.items():
        ours = sorted(filter(names.has_topic, topics))
        others = sorted(set(topics) - set(ours))
        is_inside = names.has_group(group, topics)
        if is_inside and others:
            text = (
                f"{group} also reads {_list(others)}, outside the scope: those offsets are not "
                f"set. On {target} it would begin there by auto.offset.reset, and on {source} "
                "its members no longer read them."
            )
            yield Finding(code="scope_reads_outside", where=group, sentence=text, page="groups")
        elif not is_inside and ours:
            text = (
                f"{group} is outside the scope and reads {_list(ours)}: it stays on {source}, "
                "where no new records arrive."
            )
            yield Finding(code="scope_read_from_outside", where=group, sentence=text, page="groups")


def _empty(flow: str) -> Finding:
    text = f"{flow} replicates no topic that the scope names, so nothing is failed over."
    return Finding(code="scope_empty", where=flow, sentence=text, page="topics")


def _list(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")

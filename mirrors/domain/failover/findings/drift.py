"""Blockers and warnings of a failover about the target's topics, settings and ACLs.

A. A blocker leaves clients without their records or without a place to write: a remote topic that
   is missing, has too few partitions, or rejects every write.
B. Any other difference is a warning: clients work, but not as on the source.
C. An accepted change is not reported again, except for (A): no decision brings records back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrors.domain.failover.plan_types import Finding
from mirrors.domain.failover.preconditions import DriftFinding, TargetTopics
from mirrors.domain.formatting import duration, plural

# Drift is checked every ten minutes while the flow runs.
OLD_MS = 30 * 60 * 1000
_SHOWN = 3
_LEAST = "min.insync.replicas"
_EFFECTS = {
    _LEAST: "writes with acks=all need this many in-sync replicas",
    "cleanup.policy": "records are deleted by another policy than on the source",
    "retention.ms": "records are kept for another time than on the source",
    "retention.bytes": "another amount of bytes is kept than on the source",
    "max.message.bytes": "the largest accepted batch differs from the source",
    "message.timestamp.type": "records get other timestamps than on the source",
}

_SCHEMAS = {
    "schema level": "Producers can register other schemas than on the source.",
    "deleted schema": "Consumers cannot read records with this schema.",
    "foreign schema": "The next version of the source gets another number.",
}


def drift_blockers(target_topics: TargetTopics, *, target: str) -> Iterator[Finding]:
    """Yield the blockers. `target` is its alias."""
    gone = {row.name for row in target_topics.drifted if row.kind == "deleted topic"}
    for row in target_topics.drifted:
        if row.kind == "deleted topic":
            text = (
                f"{row.sentence} Its records are missing, so its groups cannot resume. Restore it "
                "on the tab Drift and have it replicated, or leave its groups out."
            )
            yield Finding(code="drift", where=row.name, sentence=text, page="drift")
        elif _refuses_writes(row, target_topics):
            copies = target_topics.replicas[row.name]
            text = (
                f"{row.sentence} It has {plural(copies, 'replica')} on {target}, so every write "
                "with acks=all will be rejected. Restore the value on the tab Drift."
            )
            where = f"{row.name}: {row.key}"
            yield Finding(code="drift", where=where, sentence=text, page="drift")
    for name in target_topics.missing:
        if name not in gone:
            text = (
                f"{name} is selected but does not exist on {target} yet: all its records would be "
                "missing. The flow's warnings or the tab Sync tasks say why it was not created; "
                "the tab Plan creates it."
            )
            yield Finding(code="missing_topic", where=name, sentence=text, page="plan")
    for name, has, needs in target_topics.too_few_partitions:
        text = (
            f"{name} has {plural(has, 'partition')} on {target}, its source topic {needs:,}: "
            "records of the other partitions would be missing. The tab Plan adds them."
        )
        yield Finding(code="few_partitions", where=name, sentence=text, page="plan")


def drift_warnings(target_topics: TargetTopics, *, target: str, now: int) -> Iterator[Finding]:
    for row in target_topics.drifted:
        if row.decided or row.kind == "deleted topic" or _refuses_writes(row, target_topics):
            continue
        where = f"{row.name}: {row.key}" if row.key else row.name
        text = f"{row.sentence} {_effect(row, target)} Accept or restore it on the tab Drift."
        yield Finding(code="drift", where=where, sentence=text, page="drift")
    reported = {
        f"{row.name}: {row.key}" for row in target_topics.drifted if row.kind == "topic config"
    }
    if settings := [name for name in target_topics.settings if name not in reported]:
        text = (
            f"{plural(len(settings), 'config')} of remote topics "
            f"{'differs' if len(settings) == 1 else 'differ'} from the source: {_names(settings)}. "
            "Clients get the target's. The tab Plan shows and sets them."
        )
        yield Finding(code="not_in_step", where=target, sentence=text, page="plan")
    if target_topics.rules:
        text = (
            f"{plural(len(target_topics.rules), 'ACL')} of the source "
            f"{'is' if len(target_topics.rules) == 1 else 'are'} not on {target}: "
            f"{_names(target_topics.rules)}. Clients that need one are denied there. The "
            "tab Plan shows and creates them; sync.topic.acls.enabled synchronizes them."
        )
        yield Finding(code="rules_not_there", where=target, sentence=text, page="plan")
    for sentence in target_topics.left:
        text = f"{sentence} On {target}, grant producers the ACLs that they need."
        yield Finding(code="rules_left", where=target, sentence=text, page="plan")
    yield from _unseen(target_topics, target, now)


def _unseen(target_topics: TargetTopics, target: str, now: int) -> Iterator[Finding]:
    if target_topics.seen_at is not None and now - target_topics.seen_at <= OLD_MS:
        return
    seen = (
        "It was never checked"
        if target_topics.seen_at is None
        else f"The last check was {duration(now - target_topics.seen_at)} ago, so it is unknown"
    )
    text = (
        f"{seen} whether topics, configs and ACLs of {target} are as on the source. The sync task "
        "that checks is paused while the flow does not run or a cluster is unreachable. Press "
        "“Check now” on the tab Plan."
    )
    yield Finding(code="drift_not_seen", where=target, sentence=text, page="plan")


def _refuses_writes(row: DriftFinding, target_topics: TargetTopics) -> bool:
    if row.kind != "topic config" or row.key != _LEAST or row.name not in target_topics.replicas:
        return False
    text = row.found or ""
    return text.isdecimal() and int(text) > target_topics.replicas[row.name]


def _effect(row: DriftFinding, target: str) -> str:
    if row.kind == "acl":
        return f"Clients that need this ACL are denied on {target}."
    if row.kind == "partitions":
        return f"Producers on {target} assign keys to other partitions than on the source."
    if row.kind in _SCHEMAS:
        return _SCHEMAS[row.kind]
    effect = _EFFECTS.get(row.key, "it behaves differently from the source")
    return f"On {target} {effect}."


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"

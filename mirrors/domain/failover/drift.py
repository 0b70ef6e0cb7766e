"""Blockers and warnings of a failover about the target's topics, settings and ACLs.

A. A blocker leaves clients without their records or without a place to write: a remote topic that
   is missing, has too few partitions, or rejects every write.
B. Any other difference is a warning: clients work, but not as on the source.
C. An accepted change is not reported again, except for (A): no decision brings records back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrors.domain.failover.plan_types import Finding
from mirrors.domain.failover.preconditions import Drifted, TargetTopics
from mirrors.domain.formatting import duration, plural

# A look is made every ten minutes while the flow runs.
OLD_MS = 30 * 60 * 1000
_SHOWN = 3
_LEAST = "min.insync.replicas"
_EFFECTS = {
    _LEAST: "writes with acks=all wait for so many replicas",
    "cleanup.policy": "other records are deleted there than on the source",
    "retention.ms": "records stay there for another time than on the source",
    "retention.bytes": "another amount of records stays there than on the source",
    "max.message.bytes": "the records that it takes are of another size than on the source",
    "message.timestamp.type": "records get other times than on the source",
}


def drift_blockers(target_topics: TargetTopics, *, target: str) -> Iterator[Finding]:
    """Yield the blockers. `target` is its alias."""
    gone = {row.name for row in target_topics.drifted if row.kind == "deleted topic"}
    for row in target_topics.drifted:
        if row.kind == "deleted topic":
            text = (
                f"{row.sentence} Its records are not there and its groups have nothing to go on "
                "from. Have it made again on the tab Drift and copied, or leave its groups out."
            )
            yield Finding(code="drift", where=row.name, sentence=text, page="drift")
        elif _refuses_writes(row, target_topics):
            copies = target_topics.replicas[row.name]
            text = (
                f"{row.sentence} It has {plural(copies, 'replica')} on {target}, so every write "
                "with acks=all will be refused. Have it put back on the tab Drift."
            )
            where = f"{row.name}: {row.key}"
            yield Finding(code="drift", where=where, sentence=text, page="drift")
    for name in target_topics.missing:
        if name not in gone:
            text = (
                f"{name} is to be copied and is not on {target} yet: nothing of it would be there. "
                "The flow's warnings or the tab Duties say why it is not made; the tab Plan makes "
                "it."
            )
            yield Finding(code="missing_topic", where=name, sentence=text, page="plan")
    for name, has, needs in target_topics.too_few_partitions:
        text = (
            f"{name} has {plural(has, 'partition')} on {target} and its source {needs:,}: records "
            "of the further ones would not be there. The tab Plan adds them."
        )
        yield Finding(code="few_partitions", where=name, sentence=text, page="plan")


def drift_warnings(target_topics: TargetTopics, *, target: str, now: int) -> Iterator[Finding]:
    for row in target_topics.drifted:
        if row.decided or row.kind == "deleted topic" or _refuses_writes(row, target_topics):
            continue
        where = f"{row.name}: {row.key}" if row.key else row.name
        text = f"{row.sentence} {_effect(row, target)} Decide on it on the tab Drift."
        yield Finding(code="drift", where=where, sentence=text, page="drift")
    reported = {
        f"{row.name}: {row.key}" for row in target_topics.drifted if row.kind == "topic config"
    }
    if settings := [name for name in target_topics.settings if name not in reported]:
        text = (
            f"{plural(len(settings), 'setting')} of remote topics "
            f"{'is' if len(settings) == 1 else 'are'} not as on the source: {_names(settings)}. "
            "Clients meet the target's. The tab Plan shows each and sets it."
        )
        yield Finding(code="not_in_step", where=target, sentence=text, page="plan")
    if target_topics.rules:
        text = (
            f"{plural(len(target_topics.rules), 'access rule')} of the source "
            f"{'is' if len(target_topics.rules) == 1 else 'are'} not on {target}: "
            f"{_names(target_topics.rules)}. Who needs one is refused there. The tab Plan shows "
            "each and makes it; sync.topic.acls.enabled keeps them in step."
        )
        yield Finding(code="rules_not_there", where=target, sentence=text, page="plan")
    for sentence in target_topics.left:
        text = f"{sentence} Grant on {target} what producers need there."
        yield Finding(code="rules_left", where=target, sentence=text, page="plan")
    yield from _unseen(target_topics, target, now)


def _unseen(target_topics: TargetTopics, target: str, now: int) -> Iterator[Finding]:
    if target_topics.seen_at is not None and now - target_topics.seen_at <= OLD_MS:
        return
    seen = (
        "Nobody has looked yet"
        if target_topics.seen_at is None
        else f"The last look is {duration(now - target_topics.seen_at)} old: nobody knows"
    )
    text = (
        f"{seen} whether topics, settings and access rules of {target} are in step with the "
        "source. The duty that looks rests while the flow does not run or a cluster does not "
        "answer. Have a worker look on the tab Plan."
    )
    yield Finding(code="drift_not_seen", where=target, sentence=text, page="plan")


def _refuses_writes(row: Drifted, target_topics: TargetTopics) -> bool:
    if row.kind != "topic config" or row.key != _LEAST or row.name not in target_topics.replicas:
        return False
    text = row.found or ""
    return text.isdecimal() and int(text) > target_topics.replicas[row.name]


def _effect(row: Drifted, target: str) -> str:
    if row.kind == "acl":
        return f"Who had that right is refused on {target}."
    if row.kind == "partitions":
        return f"Producers on {target} spread their keys otherwise than on the source."
    effect = _EFFECTS.get(row.key, "it works otherwise than on the source")
    return f"On {target} {effect}."


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"

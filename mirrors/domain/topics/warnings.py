"""Warnings about topics that can be replicated: settings of the target that will cause problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from mirrors.domain.cluster_snapshot import DYNAMIC_TOPIC, ClusterSnapshot, TopicState

SHOWN = 3
_UNLIMITED = 2**63 - 1
# Where the target allows less than the source, and what that does. -1 means no limit.
_LIMITS = {
    "max.message.bytes": "larger batches are rejected and stop their partition",
    "message.timestamp.after.max.ms": "records with timestamps further ahead are rejected",
    "message.timestamp.before.max.ms": "records with timestamps further back are rejected",
    "retention.ms": "the target deletes records that the source still has",
    "retention.bytes": "the target deletes records that the source still has",
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A source topic and its remote topic: existing, or to be created with `configs`."""

    topic: TopicState
    remote_topic: str
    existing: TopicState | None
    configs: dict[str, str]
    replication_factor: int


def warn(
    pairs: Sequence[Pair], target: ClusterSnapshot, *, lowered: tuple[int, int] | None
) -> tuple[str, ...]:
    """Return one sentence for each problem, with the topics that it concerns."""
    defaults = _defaults(target)
    concerned: dict[str, list[str]] = {}
    for pair in pairs:
        for sentence in _of_pair(pair, defaults):
            concerned.setdefault(sentence, []).append(pair.topic.name)
    found = [f"{_names(names)}: {sentence}" for sentence, names in concerned.items()]
    if lowered is not None and pairs:
        now, usual = lowered
        brokers = f"{target.brokers} broker" + ("" if target.brokers == 1 else "s")
        found.insert(
            0,
            f"The target has {brokers}: remote topics get replication factor {now} instead of "
            f"{usual}, so losing one broker loses their records.",
        )
    return tuple(found)


def _of_pair(pair: Pair, defaults: dict[str, str]) -> Iterable[str]:
    yield from _narrower(pair, defaults)
    least = _number(_on_target(pair, "min.insync.replicas", defaults))
    if least is not None and 0 < pair.replication_factor < least:
        yield (
            f"min.insync.replicas on the target is {least}, but the replication factor is "
            f"{pair.replication_factor}: every write will be rejected."
        )
    if _on_target(pair, "message.timestamp.type", defaults) == "LogAppendTime":
        yield "the target sets timestamps itself (LogAppendTime): source timestamps are not kept."
    here, there = pair.topic.config("cleanup.policy"), _on_target(pair, "cleanup.policy", defaults)
    if here is not None and there is not None and _policies(here) != _policies(there):
        yield f"cleanup.policy is {here} on the source and {there} on the target."
    if pair.existing is not None and pair.existing.partitions > pair.topic.partitions:
        yield (
            f"the remote topic has {pair.existing.partitions} partitions, the source "
            f"{pair.topic.partitions}: the extra ones stay empty."
        )


def _narrower(pair: Pair, defaults: dict[str, str]) -> Iterable[str]:
    for name, effect in _LIMITS.items():
        here = _number(pair.topic.config(name))
        there = _number(_on_target(pair, name, defaults))
        if here is None or there is None or not _deletes(pair, name, defaults):
            continue
        if _limit(there) < _limit(here):
            yield f"{name} is {here} on the source and {there} on the target: {effect}."


def _deletes(pair: Pair, name: str, defaults: dict[str, str]) -> bool:
    if not name.startswith("retention."):
        return True
    policy = _on_target(pair, "cleanup.policy", defaults)
    return policy is None or "delete" in _policies(policy)


def _on_target(pair: Pair, name: str, defaults: dict[str, str]) -> str | None:
    """Return the value that applies to the remote topic; None if unknown yet."""
    if pair.existing is not None:
        return pair.existing.config(name)
    return pair.configs.get(name, defaults.get(name))


def _defaults(target: ClusterSnapshot) -> dict[str, str]:
    """Return what a new topic on the target gets, as far as other topics show it."""
    found: dict[str, str] = {}
    for topic in target.topics.values():
        for name, entry in topic.configs.items():
            if entry.source != DYNAMIC_TOPIC and entry.value is not None:
                found.setdefault(name, entry.value)
    return found


def _policies(text: str) -> set[str]:
    return {word.strip() for word in text.split(",")}


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _limit(number: int) -> int:
    return _UNLIMITED if number < 0 else number


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more topics"

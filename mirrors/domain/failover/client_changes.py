"""What each client changes to work against the target: address, topic names, pattern."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from mirrors.domain.replication_policy import ReplicationPolicy


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientChange:
    """The change of one consumer group, or of all producers (`group` is empty).

    - `topics`: names to use on the target.
    - `pattern`: a Java regular expression that matches the remote topics and the topics that
      producers write there later. Empty if names stay.
    """

    group: str
    bootstrap: str
    topics: tuple[str, ...]
    pattern: str
    sentence: str


def client_changes(
    policy: ReplicationPolicy,
    *,
    bootstrap: str,
    topics: Mapping[str, Iterable[tuple[str, str]]],
    produced: Iterable[str],
) -> tuple[ClientChange, ...]:
    """Return the changes: first of producers, then of each group.

    `topics`: the topics of each group, with their names on the target.
    """
    changes = [_producers(policy, bootstrap, sorted(set(produced)))]
    changes += [
        _consumers(policy, group, bootstrap, sorted(set(names)))
        for group, names in sorted(topics.items())
    ]
    return tuple(changes)


def _producers(policy: ReplicationPolicy, bootstrap: str, names: list[str]) -> ClientChange:
    text = "Producers change bootstrap.servers. Topic names stay."
    renamed = {
        name: policy.remote_topic(name)
        for name in names
        if policy.renamed(name) is not None and policy.continues_in_remote(name)
    }
    others = [name for name in names if name not in renamed]
    if renamed:
        first, there = next(iter(renamed.items()))
        text = (
            "Producers change bootstrap.servers. Topics that topic.rename names have that name on "
            f"the target, where they are written: {first} is {there} there."
        )
        if any(policy.remote_topic(name) != name for name in others):
            text += (
                " Other topics are written under their own names, and must exist there. Their "
                "remote topics must never be written."
            )
    elif any(policy.remote_topic(name) != name for name in names):
        text = (
            "Producers change bootstrap.servers and write to the topics of the same name on the "
            "target, which must exist there. They must never write to the remote topics."
        )
    there_names = tuple(sorted({*others, *renamed.values()}))
    return ClientChange(
        group="", bootstrap=bootstrap, topics=there_names, pattern="", sentence=text
    )


def _consumers(
    policy: ReplicationPolicy, group: str, bootstrap: str, topics: Sequence[tuple[str, str]]
) -> ClientChange:
    remote = [there for _, there in topics]
    if all(name == there for name, there in topics):
        text = f"{group} changes bootstrap.servers. Topic names stay."
        return ClientChange(
            group=group, bootstrap=bootstrap, topics=tuple(remote), pattern="", sentence=text
        )
    # A topic that returns to its origin has its old name there, and no producer uses the name from
    # here.
    copied = {
        name
        for name, there in topics
        if there == policy.remote_topic(name) and not policy.continues_in_remote(name)
    }
    renamed = sorted({*remote, *copied})
    text = (
        f"{group} changes bootstrap.servers. It subscribes to the remote topics and, for what "
        "producers write on the target, to the topics of the same name; the pattern matches both."
    )
    if policy.renames and not copied:
        text = (
            f"{group} changes bootstrap.servers and subscribes to the remote topics, which have "
            "other names; the pattern matches them."
        )
    return ClientChange(
        group=group,
        bootstrap=bootstrap,
        topics=tuple(remote),
        pattern="|".join(_literal(name) for name in renamed),
        sentence=text,
    )


def _literal(name: str) -> str:
    """Escape the name: of the characters in topic names, only the dot is special in a pattern."""
    return name.replace(".", r"\.")

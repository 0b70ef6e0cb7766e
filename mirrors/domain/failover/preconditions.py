"""What a plan knows apart from offsets: the state of the target's topics, the rights, the fence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Side = Literal["source", "target"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftFinding:
    """One open finding of drift. `decided`: somebody accepted it."""

    kind: str
    name: str
    key: str = ""
    found: str | None = None
    sentence: str
    decided: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TargetTopics:
    """What was last seen of the target's topics, settings and ACLs.

    - `seen_at` (epoch ms): when; None is never.
    - `missing`: remote topics to be created. `too_few_partitions`: remote topics with fewer than
      their source, as (name, has, needs). Both are read for this plan.
    - `settings` and `rules` differ from the source. `left` says which ACLs are not replicated.
    - `replicas`: the replication factor of each remote topic.
    """

    seen_at: int | None = None
    drifted: tuple[DriftFinding, ...] = ()
    missing: tuple[str, ...] = ()
    too_few_partitions: tuple[tuple[str, int, int], ...] = ()
    settings: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    replicas: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Permissions:
    """What the principal may do on one cluster, as Kafka's operations (READ, ALTER).

    - A name that is missing here could not be checked; nor could the cluster if it is None.
    - `absent`: topics that do not exist.
    - `trouble`: why nothing, or not all, is known.
    """

    alias: str
    cluster: frozenset[str] | None = None
    topics: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    trouble: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedNames:
    """The names whose rights a plan checks.

    - `divergence_topic`: the topic that stores the divergence points.
    - `temporary_groups`: stands for the temporary groups of a simulation, which share one prefix.
    """

    topics: tuple[str, ...] = ()
    remote_topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    temporary_groups: str = ""
    divergence_topic: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FenceSupport:
    """How the producers would be fenced.

    - `refused`: why ACLs cannot do it; `fallback`: what is done then.
    - `bare`: topics that no ACL covers, on a cluster with `allow.everyone.if.no.acl.found`.
      `everybody` None: it is set, but the brokers do not report its value.
    """

    how: str
    fallback: str
    refused: str = ""
    bare: tuple[str, ...] = ()
    everybody: bool | None = False


_DOES = {
    "acl": "ACLs deny Write on the source's topics.",
    "webhook": "A webhook is called to fence the producers.",
    "command": "A command is run to fence the producers.",
    "person": "A person fences the producers: stop them, or revoke their credentials or their "
    "network path to {source}. Then confirm the step.",
    "none": "No fence is configured: stop the producers outside of Understudy.",
}


class EffectiveFence(NamedTuple):
    """The fence that will be used. `how` is a value of `failover.fence`."""

    how: str
    sentence: str


def effective_fence(
    seen: Mapping[str, Any] | None,
    *,
    how: str,
    fallback: str,
    source: str,
    simulated: bool = True,
) -> EffectiveFence:
    """Return the fence that will be used. `seen`: the fence of a plan; None if it is unknown.

    `simulated`: whether there is a plan.
    """
    if how != "acl":
        return EffectiveFence(how, _DOES[how].format(source=source))
    if seen is None and not simulated:
        text = f"Whether ACLs can fence {source} is unknown until a simulation checks it."
        return EffectiveFence(how, text)
    if seen is None:
        text = (
            f"Whether ACLs can fence {source} is unknown, because it was unreachable. An "
            "unreachable source is not fenced: keep producers away from it."
        )
        return EffectiveFence(how, text)
    why = str(seen["refused"])
    if not why and seen["bare"] and seen["everybody"] is None:
        why = (
            "some topics have no ACL, and the first one could deny their readers "
            "(allow.everyone.if.no.acl.found is set)."
        )
    if not why:
        return EffectiveFence(how, _DOES[how])
    does = _DOES[fallback].format(source=source)
    return EffectiveFence(fallback, f"ACLs cannot fence {source}: {why} {does}")

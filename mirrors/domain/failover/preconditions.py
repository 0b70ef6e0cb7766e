"""What a plan knows beside offsets: how the target's topics stand, what we may do, the fence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Side = Literal["source", "target"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drifted:
    """One finding of drift that is not over; `decided` when somebody chose to leave it so."""

    kind: str
    name: str
    key: str = ""
    found: str | None = None
    words: str
    decided: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """What was last seen of the target's topics, settings and access rules.

    `seen_at` (epoch ms) is when that was, None: never. `missing` are remote topics that are to be
    made, `short` those with too few partitions, as (name, has, needs); both are looked at for this
    plan. `settings` and `rules` are not as on the source; `left` says which rules are not carried.
    `replicas`: copies of each remote topic.
    """

    seen_at: int | None = None
    drifted: tuple[Drifted, ...] = ()
    missing: tuple[str, ...] = ()
    short: tuple[tuple[str, int, int], ...] = ()
    settings: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    replicas: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rights:
    """What the principal that connects may do on one cluster, in Kafka's words (READ, ALTER).

    A name that is not here could not be asked, nor the cluster where it is None. `absent`: topics
    that do not exist. `trouble` says why nothing, or not all, is known.
    """

    alias: str
    cluster: frozenset[str] | None = None
    topics: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    trouble: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """The names whose rights a plan asks for; `kept_in` is where the parting of both sides is kept.

    `throwaway` stands for the groups that a simulation makes, all of one prefix.
    """

    topics: tuple[str, ...] = ()
    remote_topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    throwaway: str = ""
    kept_in: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FencePicture:
    """How the producers would be kept out of the source.

    `refused` says why access rules cannot do it; `fallback` is what is done then. `bare` are topics
    that no rule covers, on a cluster that may let in everybody there (`everybody` None: it is set,
    and the brokers do not say to what).
    """

    how: str
    fallback: str
    refused: str = ""
    bare: tuple[str, ...] = ()
    everybody: bool | None = False


_DOES = {
    "acl": "Access rules deny WRITE on the source's topics.",
    "webhook": "A webhook is called, which keeps producers out.",
    "command": "A command is run, which keeps producers out.",
    "person": "A person keeps producers out: stop them, or take away their credentials or their "
    "network path to {source}. Then confirm the step.",
    "none": "Nothing keeps producers out, on purpose: see to it outside of Understudy.",
}


class EffectiveFence(NamedTuple):
    """`how` is what will be done, in the words of `failover.fence`."""

    how: str
    sentence: str


def effective_fence(
    seen: Mapping[str, Any] | None, *, how: str, fallback: str, source: str
) -> EffectiveFence:
    """`seen` is the fence of a plan, None where the source could not be asked about it."""
    if how != "acl":
        return EffectiveFence(how, _DOES[how].format(source=source))
    if seen is None:
        words = (
            f"Whether access rules can fence {source} is unknown, since it could not be asked. A "
            f"source that does not answer is not fenced: keep producers away from it."
        )
        return EffectiveFence(how, words)
    why = str(seen["refused"])
    if not why and seen["bare"] and seen["everybody"] is None:
        why = (
            "some topics have no access rule, and the first one could shut out their readers "
            "(allow.everyone.if.no.acl.found is set)."
        )
    if not why:
        return EffectiveFence(how, _DOES[how])
    does = _DOES[fallback].format(source=source)
    return EffectiveFence(fallback, f"Access rules cannot fence {source}: {why} {does}")

"""The topic plan of a flow from two snapshots: create, extend, replicate, or skip and why."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Container, Iterable
from typing import Self

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicState
from mirrors.domain.filters.topics import (
    ConfigSelection,
    TopicSelection,
    Verdict,
    naming_problem,
    shared_names,
)
from mirrors.domain.patterns.renames import LONGEST_NAME
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.warnings import Pair, warn
from mirrors.domain.transforms.rules import routes_of

# MM2's default, lowered where the target has fewer brokers.
USUAL_REPLICATION_FACTOR = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewTopic:
    """A remote topic to create; replication_factor -1 selects the target's default."""

    topic: str
    remote_topic: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Growth:
    """A remote topic that needs more partitions."""

    topic: str
    remote_topic: str
    partitions_now: int
    partitions: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CopiedTopic:
    """A source topic that this flow replicates after the plan was applied.

    `routes`: further topics on the target for its records, by a rule.
    """

    topic: str
    remote_topic: str
    partitions: int
    reason: str
    routes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkippedTopic:
    """A source topic that is not replicated. `fault`: it is selected but cannot be."""

    topic: str
    remote_topic: str | None
    reason: str
    fault: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicPlan:
    """What a flow does about topics; each list is ordered by source topic."""

    create: tuple[NewTopic, ...] = ()
    grow: tuple[Growth, ...] = ()
    copied: tuple[CopiedTopic, ...] = ()
    skipped: tuple[SkippedTopic, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def pairs(self) -> tuple[CopiedTopic, ...]:
        """As `copied`, with a row for each route: the route is its remote topic."""
        return tuple(
            dataclasses.replace(row, remote_topic=name, routes=())
            for row in self.copied
            for name in (row.remote_topic, *row.routes)
        )

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        return cls(
            create=tuple(NewTopic(**row) for row in raw["create"]),
            grow=tuple(Growth(**row) for row in raw["grow"]),
            copied=tuple(
                CopiedTopic(**{**row, "routes": tuple(row.get("routes", ()))})
                for row in raw["copied"]
            ),
            skipped=tuple(SkippedTopic(**row) for row in raw["skipped"]),
            warnings=tuple(raw["warnings"]),
        )


def plan_topics(
    source: ClusterSnapshot,
    target: ClusterSnapshot,
    spec: FlowSpec,
    *,
    copied: Collection[tuple[str, str]] = (),
) -> TopicPlan:
    """Decide for every topic of the source. A repeated plan after the first is empty.

    `copied`: source topics with the topic ids of the remote topics that have their records. Of
    several source topics with one remote topic only the one with records there is replicated;
    without one, or with several, none.
    """
    return _Planner(source, target, spec, copied).plan()


class _Planner:
    def __init__(
        self,
        source: ClusterSnapshot,
        target: ClusterSnapshot,
        spec: FlowSpec,
        copied: Collection[tuple[str, str]],
    ) -> None:
        self._source = source
        self._target = target
        self._policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        self._selection = TopicSelection(spec.settings, self._policy)
        self._rules = spec.settings.transforms
        # By remote topic: the source topic whose records it gets.
        self._written: dict[str, str] = {}
        self._configs = ConfigSelection(spec.settings)
        wanted = spec.settings.replication_factor
        usual = min(USUAL_REPLICATION_FACTOR, max(1, target.brokers))
        self._lowered = wanted is None and usual < USUAL_REPLICATION_FACTOR
        self._replication_factor = usual if wanted is None else wanted
        self._names = {_folded(name): name for name in target.topics}
        self._shared = shared_names(
            (name for name in source.topics if self._selection.decide(name).replicated),
            self._policy,
        )
        self._owners = {
            remote: owner
            for remote, names in self._shared.items()
            if (owner := _owner(target.topics.get(remote), names, set(copied))) is not None
        }
        self._create: list[NewTopic] = []
        self._grow: list[Growth] = []
        self._copied: list[CopiedTopic] = []
        self._skipped: list[SkippedTopic] = []
        self._pairs: list[Pair] = []

    def plan(self) -> TopicPlan:
        for name in sorted(self._source.topics):
            topic, verdict = self._source.topics[name], self._selection.decide(name)
            if not verdict.replicated:
                self._skip(name, None, verdict.reason)
                continue
            remote = self._policy.remote_topic(name)
            routes = routes_of(name, self._rules)
            if (obstacle := self._obstacle(name, remote, routes)) is not None:
                self._skip(name, remote, obstacle, fault=True)
                continue
            self._take(topic, remote, routes, verdict)
        lowered = (self._replication_factor, USUAL_REPLICATION_FACTOR) if self._lowered else None
        return TopicPlan(
            create=tuple(self._create),
            grow=tuple(self._grow),
            copied=tuple(self._copied),
            skipped=tuple(self._skipped),
            warnings=warn(self._pairs, self._target, lowered=lowered),
        )

    def _skip(self, topic: str, remote: str | None, reason: str, *, fault: bool = False) -> None:
        row = SkippedTopic(topic=topic, remote_topic=remote, reason=reason, fault=fault)
        self._skipped.append(row)

    def _take(
        self, topic: TopicState, remote: str, routes: tuple[str, ...], verdict: Verdict
    ) -> None:
        for name in (remote, *routes):
            self._written[name] = topic.name
            self._prepare(topic, name)
        copied = CopiedTopic(
            topic=topic.name,
            remote_topic=remote,
            partitions=topic.partitions,
            reason=verdict.reason,
            routes=routes,
        )
        self._copied.append(copied)

    def _prepare(self, topic: TopicState, remote: str) -> None:
        """Create or extend a topic on the target for records of this one."""
        existing = self._target.topics.get(remote)
        if existing is None:
            new = NewTopic(
                topic=topic.name,
                remote_topic=remote,
                partitions=topic.partitions,
                replication_factor=self._replication_factor,
                configs=self._configs.at_creation(topic.configs),
            )
            self._create.append(new)
            self._names[_folded(remote)] = remote
            self._pairs.append(Pair(topic, remote, None, new.configs, new.replication_factor))
        else:
            if existing.partitions < topic.partitions:
                growth = Growth(
                    topic=topic.name,
                    remote_topic=remote,
                    partitions_now=existing.partitions,
                    partitions=topic.partitions,
                )
                self._grow.append(growth)
            self._pairs.append(Pair(topic, remote, existing, {}, existing.replication_factor))

    def _obstacle(self, topic: str, remote: str, routes: tuple[str, ...]) -> str | None:
        """Return why a selected topic cannot be replicated; None if it can."""
        if (why := self._obstacle_of(topic, remote)) is not None:
            return why
        for name in (remote, *routes):
            if (first := self._written.get(name)) is not None:
                return (
                    f"{name} already gets the records of {first}, and a target topic belongs to "
                    "one source topic: otherwise groups could not resume there. Write one rule "
                    "with other routes for each of them, or exclude one"
                )
            if name in routes and name == remote:
                return (
                    f"its rule has the route {name}, which is the name that the policy gives: "
                    "remove it from routes, and let topic be null for these records"
                )
        for name in routes:
            if (why := self._obstacle_of(topic, name)) is not None:
                return why
        return None

    def _obstacle_of(self, topic: str, remote: str) -> str | None:
        same = self._source.cluster_id and self._source.cluster_id == self._target.cluster_id
        if same and remote == topic:
            return (
                "source and target are the same cluster: the topic would be replicated onto "
                "itself. Use another target, or the default replication policy"
            )
        owner = self._owners.get(remote, "")
        if remote == self._policy.remote_topic(topic) and (
            problem := naming_problem(topic, self._policy, self._shared, owner)
        ):
            return problem
        if remote in self._target.topics:
            return None
        if len(remote) > LONGEST_NAME:
            return (
                f"its remote name has {len(remote)} characters ({remote[:40]}…); "
                f"Kafka allows {LONGEST_NAME}. Use a shorter alias for the source, or exclude the "
                "topic"
            )
        if (other := self._names.get(_folded(remote))) is not None:
            return (
                f"its remote name {remote} differs from the target's {other} only in dots and "
                "underscores, which Kafka rejects. Delete that topic if it is not needed, "
                "exclude this one, or use another alias for the source"
            )
        if self._replication_factor > max(1, self._target.brokers):
            return (
                f"replication.factor is {self._replication_factor}, but the target has "
                f"{self._target.brokers} brokers. Lower it, or add brokers"
            )
        return None


def _owner(
    remote: TopicState | None, names: Iterable[str], copied: Container[tuple[str, str]]
) -> str | None:
    found = [name for name in names if remote is not None and (name, remote.topic_id) in copied]
    return found[0] if len(found) == 1 else None


def colliding(names: Iterable[str], topics: Iterable[str]) -> frozenset[str]:
    """Return the topics that collide with topics of these names."""
    wanted = {_folded(name) for name in names}
    return frozenset(name for name in topics if _folded(name) in wanted)


def _folded(name: str) -> str:
    """Return the name as Kafka compares it for collisions in metric names."""
    return name.replace(".", "_")

"""The settings of a flow as one table: MM2's keys and defaults, other defaults and why."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Literal

from mirrors.domain.patterns.renames import RENAME, RenameList
from mirrors.domain.settings.failover import FAILOVER_KEYS
from mirrors.domain.settings.flow_control import CONTROL
from mirrors.domain.settings.groups import GROUP_KEYS
from mirrors.domain.settings.run_bounds import StartFrom
from mirrors.domain.settings.sync import SYNC_KEYS
from mirrors.domain.settings.value_types import (
    Boolean,
    Integer,
    OneOf,
    Patterns,
    Separator,
    Setting,
    SomeOf,
)

DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
# Class names that people have in their files, and the rule that each stands for.
POLICY_CLASSES: dict[str, Literal["default", "identity"]] = {
    DEFAULT_POLICY: "default",
    IDENTITY_POLICY: "identity",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": "identity",
    "DefaultReplicationPolicy": "default",
    "IdentityReplicationPolicy": "identity",
}
TOPICS_EXCLUDE = r"mm2.*\.internal, .*\.replica, __.*"
_POLICIES = (
    "DefaultReplicationPolicy or IdentityReplicationPolicy "
    "(with or without Kafka's or Strimzi's package before it)"
)
CONFIGS_EXCLUDE = (
    "follower.replication.throttled.replicas, leader.replication.throttled.replicas, "
    "message.timestamp.difference.max.ms, log.message.timestamp.before.max.ms, "
    "log.message.timestamp.after.max.ms, message.timestamp.type, "
    "unclean.leader.election.enable, min.insync.replicas"
)
METRIC_NAMES = "metric.names.formats"
OLD_METRIC_NAMES, NEW_METRIC_NAMES = "legacy", "new"
_METRIC_NAMES = SomeOf((OLD_METRIC_NAMES, NEW_METRIC_NAMES))

HONOURED = (
    Setting(
        name="topics",
        verdict="honoured",
        kind=Patterns(),
        default=".*",
        mm2=".*",
        meaning="Which topics are replicated.",
    ),
    Setting(
        name="topics.exclude",
        verdict="honoured",
        kind=Patterns(),
        default=TOPICS_EXCLUDE,
        mm2=TOPICS_EXCLUDE,
        meaning="Which topics are excluded although `topics` matches them.",
    ),
    Setting(
        name="config.properties.exclude",
        verdict="honoured",
        kind=Patterns(),
        default=CONFIGS_EXCLUDE,
        mm2=CONFIGS_EXCLUDE,
        meaning="Which topic configs remote topics do not get, neither at creation nor later.",
    ),
    Setting(
        name="use.defaults.from",
        verdict="different",
        kind=OneOf(("target", "source")),
        default="target",
        mm2="target",
        meaning="Which cluster's defaults apply to configs that the source topic does not set.",
        why="Any other value is rejected; MM2 reads it as target.",
    ),
    Setting(
        name="replication.policy.class",
        verdict="different",
        kind=OneOf(tuple(POLICY_CLASSES), shown=_POLICIES),
        default=DEFAULT_POLICY,
        mm2=DEFAULT_POLICY,
        meaning="How remote topics are named: with the source alias as prefix, or unchanged.",
        why="No class is loaded: the known names select the two built-in policies.",
    ),
    Setting(
        name="replication.policy.separator",
        verdict="honoured",
        kind=Separator(),
        default=".",
        mm2=".",
        meaning="The separator between alias and topic in a remote topic's name.",
    ),
    Setting(
        name="replication.policy.internal.topic.separator.enabled",
        verdict="honoured",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether MM2's internal topics use the separator too, or always a dot.",
    ),
    Setting(
        name="replication.factor",
        verdict="different",
        kind=Integer(-1, 32767, but=0),
        default=None,
        mm2="2",
        meaning="Replication factor of remote topics; -1 for the target's default.",
        why="If not set: the lower of 2 and the number of the target's brokers, "
        "with a warning below 2; MM2 would fail to create the topic repeatedly.",
    ),
    Setting(
        name="tasks.max",
        verdict="honoured",
        kind=Integer(1, 1000),
        default="1",
        mm2="1",
        meaning="Into how many slices a flow's partitions are divided; one task replicates each.",
    ),
    Setting(
        name="refresh.topics.enabled",
        verdict="honoured",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether new topics and partitions are looked for while the flow runs.",
    ),
    Setting(
        name="refresh.topics.interval.seconds",
        verdict="different",
        kind=Integer(1, 86400),
        default="5",
        mm2="600",
        meaning="How often new topics and partitions are looked for.",
        why="Ten minutes without replicating a new topic are ten minutes of data "
        "loss; a check is cheap.",
    ),
    Setting(
        name="heartbeats.replication.enabled",
        verdict="honoured",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether the heartbeats topic is replicated even if `topics` does not "
        "match it; `topics.exclude` still applies.",
    ),
    Setting(
        name=METRIC_NAMES,
        verdict="honoured",
        kind=_METRIC_NAMES,
        default=OLD_METRIC_NAMES,
        mm2=OLD_METRIC_NAMES,
        meaning="Under which of MM2's names `/metrics` has the flow's figures: the old ones, "
        "those of KIP-1280, or both.",
    ),
)
OURS = (
    Setting(
        name=RENAME,
        verdict="ours",
        kind=RenameList(),
        default="",
        meaning="Other names of remote topics: rules `expression -> name`. The first rule that "
        "matches a source topic names its remote topic; the policy names the others.",
    ),
    Setting(
        name="delivery",
        verdict="ours",
        kind=OneOf(("exactly_once", "at_least_once")),
        default="exactly_once",
        meaning="Whether records and positions are committed in one transaction on the target.",
    ),
    Setting(
        name="commit.interval.ms",
        verdict="ours",
        kind=Integer(10, 60000),
        default="500",
        meaning="How often a slice commits; a restart repeats or delays at most this much. "
        "Exactly once and behind a distant target, up to five seconds.",
    ),
    Setting(
        name="start.from",
        verdict="ours",
        kind=StartFrom(),
        default="earliest",
        meaning="Where partitions start at the first start; partitions that named "
        "offsets leave out, and later ones, start at their first record.",
    ),
)
KEYS: dict[str, Setting] = {
    key.name: key for key in (*HONOURED, *GROUP_KEYS, *SYNC_KEYS, *OURS, *CONTROL, *FAILOVER_KEYS)
}


def metric_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of MM2's names a flow's figures have, from its valid settings."""
    return _METRIC_NAMES.parse(properties.get(METRIC_NAMES, OLD_METRIC_NAMES))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably intended."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return found[0] if found else None

"""The settings of consumer groups; `table` contains them."""

from __future__ import annotations

from mirrors.domain.settings.value_types import Boolean, Integer, OneOf, Patterns, Setting

GROUPS_EXCLUDE = "console-consumer-.*, connect-.*, __.*"
_SECONDS = Integer(1, 86400)
_FACTOR = Integer(-1, 32767, but=0)
_FEWER = "Lowered where the cluster has fewer brokers; MM2 would fail to create the topic."

GROUP_KEYS = (
    Setting(
        name="groups",
        verdict="honoured",
        kind=Patterns(),
        default=".*",
        mm2=".*",
        meaning="Which consumer groups get checkpoints and synchronized offsets.",
    ),
    Setting(
        name="groups.exclude",
        verdict="honoured",
        kind=Patterns(),
        default=GROUPS_EXCLUDE,
        mm2=GROUPS_EXCLUDE,
        meaning="Which groups are excluded although `groups` matches them.",
    ),
    Setting(
        name="refresh.groups.enabled",
        verdict="honoured",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether new groups are looked for after the first time.",
    ),
    Setting(
        name="refresh.groups.interval.seconds",
        verdict="different",
        kind=_SECONDS,
        default="30",
        mm2="600",
        meaning="How often new groups are looked for.",
        why="A group that is unknown for ten minutes has no resume offset; a check is cheap.",
    ),
    Setting(
        name="emit.checkpoints.enabled",
        verdict="different",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether checkpoints are written.",
        why="MM2 rejects false; here group offsets are synchronized without checkpoints too.",
    ),
    Setting(
        name="emit.checkpoints.interval.seconds",
        verdict="honoured",
        kind=_SECONDS,
        default="60",
        mm2="60",
        meaning="How often checkpoints are written.",
    ),
    Setting(
        name="checkpoints.topic.replication.factor",
        verdict="different",
        kind=_FACTOR,
        default="3",
        mm2="3",
        meaning="Replication factor of the checkpoints topic; -1 for the target's default.",
        why=_FEWER,
    ),
    Setting(
        name="sync.group.offsets.enabled",
        verdict="different",
        kind=Boolean(),
        default="false",
        mm2="false",
        meaning="Whether offsets of idle groups are synchronized to the target.",
        why="A group that is reset to an earlier offset on the source is reset on "
        "the target too, unless it consumed there; MM2 never moves a group "
        "back.",
    ),
    Setting(
        name="sync.group.offsets.interval.seconds",
        verdict="honoured",
        kind=_SECONDS,
        default="60",
        mm2="60",
        meaning="How often group offsets are synchronized.",
    ),
    Setting(
        name="emit.offset-syncs.enabled",
        verdict="honoured",
        kind=Boolean(),
        default="true",
        mm2="true",
        meaning="Whether MM2's offset syncs are written in addition to the exact offset map.",
    ),
    Setting(
        name="offset-syncs.topic.location",
        verdict="honoured",
        kind=OneOf(("source", "target")),
        default="source",
        mm2="source",
        meaning="On which cluster offset syncs are written; target if the source may only be read.",
    ),
    Setting(
        name="offset-syncs.topic.replication.factor",
        verdict="different",
        kind=_FACTOR,
        default="3",
        mm2="3",
        meaning="Replication factor of the offset-syncs topic; -1 for the cluster's default.",
        why=_FEWER,
    ),
    Setting(
        name="offset.lag.max",
        verdict="honoured",
        kind=Integer(0, 2**63 - 1),
        default="100",
        mm2="100",
        meaning="How far apart offset syncs may be.",
    ),
)

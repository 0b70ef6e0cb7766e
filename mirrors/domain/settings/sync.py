"""The settings of heartbeats, topic configs and ACLs; `table` contains them."""

from __future__ import annotations

from mirrors.domain.settings.value_types import Flag, OneOf, Setting, Whole

_SECONDS = Whole(1, 86400)

SYNC_KEYS = (
    Setting(
        name="emit.heartbeats.enabled",
        verdict="different",
        kind=Flag(),
        default="true",
        mm2="true",
        meaning="Whether heartbeats are written.",
        why="Written on the source with the flow's own key and carried by the flow, so that one "
        "on the target proves the whole path; MM2 writes them on the target.",
    ),
    Setting(
        name="emit.heartbeats.interval.seconds",
        verdict="different",
        kind=_SECONDS,
        default="5",
        mm2="1",
        meaning="How often heartbeats are written.",
        why="Each heartbeat is carried and so makes an idle flow commit: every 5 s costs a fifth, "
        "and reports a broken path as soon as anybody would act on it.",
    ),
    Setting(
        name="heartbeats.topic.replication.factor",
        verdict="different",
        kind=Whole(-1, 32767, but=0),
        default="3",
        mm2="3",
        meaning="Copies of the heartbeats topic; -1 for the cluster's default.",
        why="Lowered where the cluster has fewer brokers; MM2 would fail to create the topic.",
    ),
    Setting(
        name="sync.topic.configs.enabled",
        verdict="honoured",
        kind=Flag(),
        default="true",
        mm2="true",
        meaning="Whether later changes of topic configs follow (new topics have them).",
    ),
    Setting(
        name="sync.topic.configs.interval.seconds",
        verdict="different",
        kind=_SECONDS,
        default="60",
        mm2="600",
        meaning="How often topic configs follow.",
        why="A retention that was raised before an incident must not wait ten minutes; only what "
        "differs is written, so a look costs little.",
    ),
    Setting(
        name="sync.topic.acls.enabled",
        verdict="different",
        kind=Flag(),
        default="false",
        mm2="true",
        meaning="Whether access rules (ACLs) of copied topics follow.",
        why="Off unless asked for, and then it waits until somebody has looked at the plan: rules "
        "grant rights to people. The literal topic * is not carried, it would cover more.",
    ),
    Setting(
        name="sync.topic.acls.interval.seconds",
        verdict="honoured",
        kind=_SECONDS,
        default="600",
        mm2="600",
        meaning="How often topic ACLs follow.",
    ),
    Setting(
        name="sync.acls.scope",
        verdict="ours",
        kind=OneOf(("topics", "complete")),
        default="topics",
        meaning="Which access rules follow: those of literal topics as in MM2, or also those of "
        "name prefixes and consumer groups, and with deleted ones taken away that the flow made.",
    ),
    Setting(
        name="drift.grace.seconds",
        verdict="ours",
        kind=Whole(0, 2_592_000),
        default="3600",
        meaning="How long what somebody changed on the target by hand waits for a decision before "
        "it is put back; 0 puts it back at the next turn, as MM2 does.",
    ),
)

"""The sync tasks of a flow: what each does, and the settings that enable and schedule it."""

from __future__ import annotations

from mirrors.domain.sync.schedule import Schedule

HEARTBEATS = Schedule(
    name="heartbeats",
    does="Writes heartbeats on the source and watches them arrive on the target.",
    switch="emit_heartbeats_enabled",
    interval="emit_heartbeats_interval_seconds",
)
TOPIC_CONFIGS = Schedule(
    name="topic configs",
    does="Brings the settings of remote topics into step with their source's.",
    switch="sync_topic_configs_enabled",
    interval="sync_topic_configs_interval_seconds",
)
TOPIC_ACLS = Schedule(
    name="topic acls",
    does="Makes the access rules on remote topics that the source's topics have.",
    switch="sync_topic_acls_enabled",
    interval="sync_topic_acls_interval_seconds",
)
PLAN = Schedule(
    name="plan",
    does="Looks at what is not in step on the target, and keeps it to be read and applied.",
    every_s=600,
)
GROUPS = Schedule(
    name="groups",
    does="Looks which consumer groups there are on the source, and which are left out.",
    switch="refresh_groups_enabled",
    interval="refresh_groups_interval_seconds",
)
CHECKPOINTS = Schedule(
    name="checkpoints",
    does="Writes where each group would go on on the target, as MirrorMaker 2's clients read it.",
    switch="emit_checkpoints_enabled",
    interval="emit_checkpoints_interval_seconds",
)
GROUP_OFFSETS = Schedule(
    name="group offsets",
    does="Moves idle groups on the target to where they stand on the source.",
    switch="sync_group_offsets_enabled",
    interval="sync_group_offsets_interval_seconds",
)
OFFSET_SYNCS = Schedule(
    name="offset syncs",
    does="Writes MirrorMaker 2's own pairs of offsets beside the exact map.",
    switch="emit_offset_syncs_enabled",
    every_s=10,
)
STANDBY = Schedule(
    name="standby",
    does="Keeps settings, plan and last simulation on the target, to start again from there alone.",
    every_s=60,
    at_rest=True,
)
DUTY_NAMES = tuple(
    sorted(
        duty.name
        for duty in (
            HEARTBEATS,
            TOPIC_CONFIGS,
            TOPIC_ACLS,
            PLAN,
            GROUPS,
            CHECKPOINTS,
            GROUP_OFFSETS,
            OFFSET_SYNCS,
            STANDBY,
        )
    )
)

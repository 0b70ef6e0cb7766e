"""The sync tasks of a flow: what each does, and the settings that enable and schedule it."""

from __future__ import annotations

from mirrors.domain.sync.schedule import Schedule

HEARTBEATS = Schedule(
    name="heartbeats",
    does="Writes heartbeats on the source and checks that they arrive on the target.",
    switch="emit_heartbeats_enabled",
    interval="emit_heartbeats_interval_seconds",
)
TOPIC_CONFIGS = Schedule(
    name="topic configs",
    does="Synchronizes the configs of remote topics with those of their source topics.",
    switch="sync_topic_configs_enabled",
    interval="sync_topic_configs_interval_seconds",
)
TOPIC_ACLS = Schedule(
    name="topic acls",
    does="Creates the ACLs of the source's topics on their remote topics.",
    switch="sync_topic_acls_enabled",
    interval="sync_topic_acls_interval_seconds",
)
SCHEMAS = Schedule(
    name="schemas",
    does="Registers the source's schemas in the schema registry of the target, with their "
    "compatibility levels and modes.",
    switch="sync_schemas_enabled",
    interval="sync_schemas_interval_seconds",
)
PLAN = Schedule(
    name="plan",
    does="Plans what the target lacks or has different, for somebody to read and apply.",
    every_s=600,
)
GROUPS = Schedule(
    name="groups",
    does="Lists the consumer groups on the source, and those that are excluded.",
    switch="refresh_groups_enabled",
    interval="refresh_groups_interval_seconds",
)
CHECKPOINTS = Schedule(
    name="checkpoints",
    does="Writes checkpoints: each group's resume offsets on the target, in MirrorMaker 2's "
    "format.",
    switch="emit_checkpoints_enabled",
    interval="emit_checkpoints_interval_seconds",
)
GROUP_OFFSETS = Schedule(
    name="group offsets",
    does="Sets the offsets of idle groups on the target to their translated source offsets.",
    switch="sync_group_offsets_enabled",
    interval="sync_group_offsets_interval_seconds",
)
OFFSET_SYNCS = Schedule(
    name="offset syncs",
    does="Writes MirrorMaker 2's offset syncs in addition to the exact offset map.",
    switch="emit_offset_syncs_enabled",
    every_s=10,
)
STANDBY = Schedule(
    name="standby",
    does="Backs up settings, plan and last simulation to the target, so that a new installation "
    "can start from them.",
    every_s=60,
    at_rest=True,
)
# Not scheduled: a person requests it. It is a run as well, so that pages and REST show it.
TAKEOVER_CHECK = "takeover"
SYNC_TASK_NAMES = tuple(
    sorted(
        duty.name
        for duty in (
            HEARTBEATS,
            TOPIC_CONFIGS,
            TOPIC_ACLS,
            SCHEMAS,
            PLAN,
            GROUPS,
            CHECKPOINTS,
            GROUP_OFFSETS,
            OFFSET_SYNCS,
            STANDBY,
        )
    )
)

"""The duties of a flow by name: what each does, and the settings that say whether and how often."""

from __future__ import annotations

from mirrors.domain.duties import Schedule

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

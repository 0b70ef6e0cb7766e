"""Lists of alerts, channels, schedules, topology, overview and history: one declaration each.

Page, files and REST follow from a declaration: `mirrors/lists/columns.py`.
"""

from __future__ import annotations

import dataclasses

from mirrors.domain.states.flows import OBSERVED
from mirrors.lists.columns import Column, ListSpec, in_files, in_rest, on_page
from mirrors.lists.flows import LAG_OF_FLOW
from monitoring.models import AlertState, Severity

ALERTS = ListSpec(
    "alerts",
    columns=(
        *in_rest("id"),
        Column("subject_name", "Subject", ("subject_name",)),
        Column("state", "State", ("state", "severity")),
        Column("severity", "Severity", ("severity",)),
        Column("sentence", "What"),
        Column("fired_at", "Since", ("fired_at",)),
        Column("resolved_at", "Duration", ("resolved_at",)),
        Column("acknowledged_by", "Acknowledged by", ("acknowledged_by",)),
        Column("rule_name", "Rule", ("rule_name",), field="rule"),
        on_page("Actions", hidden=True),
        *in_rest("subject", "flow", "value", "since", "told_at", "acknowledged_at", "note"),
        *in_rest("page", "runbook"),
    ),
    search=("subject_name", "rule_name", "sentence"),
    default="state",
    filters={
        "state": (AlertState.FIRING.value, AlertState.RESOLVED.value),
        "severity": tuple(Severity.values),
    },
    tie=("-pk",),
)
ALERTS_OF_FLOW = dataclasses.replace(
    ALERTS,
    name="alerts of a flow",
    columns=tuple(c for c in ALERTS.columns if c.key != "subject_name" and not c.hidden),
)
RULES = ListSpec(
    "alert rules",
    columns=(
        *in_rest("id"),
        Column("name", "Rule"),
        Column("flow.name", "Applies to", field="flow"),
        Column("severity", "Severity"),
        Column("kind"),
        Column("asks", "Condition", field=None),
        Column("threshold", "Threshold", number=True),
        Column(
            "for_seconds",
            "For",
            number=True,
            title="How long it must hold before a message is sent",
        ),
        Column("enabled"),
        *in_rest("clear_below", "runbook", "labels", "channels"),
    ),
)
RULES_OF_FLOW = ListSpec(
    "alert rules of a flow",
    columns=(
        Column("name", "Rule"),
        Column("asks", "Watches"),
        Column("threshold", "Above", number=True),
        *in_files("unit"),
        Column("for_seconds", "For", number=True),
        Column("severity", "Severity"),
        Column("enabled", "State"),
    ),
)
# A target may be a secret, so only REST, for administrators, has it.
CHANNELS = ListSpec(
    "channels",
    columns=(
        *in_rest("id"),
        Column("name", "Channel"),
        Column("kind", "Kind"),
        Column("enabled"),
        Column("last.state", "Last delivery", field=None),
        Column("last.at", "When", field=None),
        Column("last.attempt", "Attempt", number=True, field=None),
        Column("last.next_at", "Next attempt", field=None),
        Column("last.error", "Error", field=None),
        on_page("Actions", hidden=True),
        *in_rest("last_delivery", "target", "secret", "headers"),
    ),
)
SILENCES = ListSpec(
    "silences",
    columns=(
        *in_rest("id"),
        Column("flow.name", "Of", field="flow"),
        Column("cluster.alias", field="cluster"),
        Column("runner.name", field="runner"),
        Column("rule.name", "Rule", field="rule"),
        Column("starts_at", "From"),
        Column("ends_at", "Until"),
        Column("who", "Who"),
        Column("reason", "Reason"),
        on_page("Actions", hidden=True),
    ),
)
# Those that were given up on the page; all of them over REST.
DELIVERIES = ListSpec(
    "deliveries",
    rows="dead",
    columns=(
        *in_rest("id"),
        Column("what", "What"),
        Column("alert.subject_name", field="alert"),
        Column("channel.name", "Channel", field="channel"),
        Column("attempt", "Attempts", number=True),
        Column("error", "Error"),
        on_page("Actions", hidden=True),
        Column("created_at"),
        *in_rest("key", "state", "due_at", "attempted_at", "next_at", "sent_at"),
    ),
)
SCHEDULES = ListSpec(
    "schedules",
    columns=(
        *in_rest("id"),
        Column("label", "Flow", ("source__alias", "target__alias"), field="name"),
        Column("observed_state", "State", ("observed_state",), field=None),
        Column("schedule", "Schedule", title="Minute, hour, day, month, weekday; UTC or its zone"),
        Column("until", "Until"),
        Column("next_at", "Next run"),
        Column(
            "offset_lag",
            "Would replicate",
            ("owed",),
            number=True,
            title="Records not yet replicated, as last seen: what a run now would replicate",
            total="account.total",
        ),
        Column("as_of", "As of", ("as_of",)),
        Column("last_started", "Last run"),
        Column("last_records", "Moved", number=True),
        Column(
            "window",
            "Window",
            number=True,
            title="Minutes that the window stays open",
            field="window_minutes",
        ),
        Column("ends_at", "Closes", title="When the window ends the current run"),
        Column("sentence", "Description"),
        *in_rest("state", "zone", "owed"),
    ),
    search=("label", "reason"),
    default="label",
    filters={"observed_state": OBSERVED.names},
)
NEXT_RUNS = ListSpec(
    "next runs",
    columns=(
        Column("next_at", "Next run"),
        Column("label", "Flow"),
        Column("offset_lag", "Would move now", number=True, total="account.total"),
        Column("sentence", "Now"),
    ),
)
LAST_RUNS = ListSpec(
    "last runs",
    columns=(
        Column("started_at", "Started"),
        *in_files("ended_at"),
        Column("flow.name", "Flow"),
        Column("state", "State"),
        on_page("Duration", number=True),
        Column("records", "Records", number=True),
        Column("bytes", "Bytes", number=True),
        Column("reason", "Reason"),
    ),
)
TOPOLOGY_FLOWS = ListSpec(
    "topology flows",
    columns=(
        *in_rest("id"),
        Column("label", "Flow", ("source__alias", "target__alias"), field="name"),
        Column("observed_state", "State", ("observed_state",), field=None),
        Column(
            "time_lag_ms",
            "RPO",
            ("time_lag_ms",),
            number=True,
            title="Age of the oldest record not yet replicated: the data loss of a failover now",
            total="account.total",
        ),
        LAG_OF_FLOW,
        Column("records_per_second", "Records/s", number=True),
        Column("bytes_per_second", "Bytes/s", number=True),
        Column("as_of", "As of", ("as_of",)),
        *in_rest("source", "target", "state", "reason", "owed"),
    ),
    search=("label", "reason"),
    default="label",
    filters={"observed_state": OBSERVED.names},
)
TOPOLOGY_CLUSTERS = ListSpec(
    "topology clusters",
    rows="nodes",
    columns=(
        Column("cluster.alias", "Cluster", field="alias"),
        Column("cluster.seen", "State", field="state"),
        Column("cluster.reason", field="reason"),
        Column("outward", "Flows out", number=True, field=None),
        Column("inward", "Flows in", number=True, field=None),
        Column(
            "hops",
            "Records reach",
            title="Over flows that are not stopped, by the fewest of them",
            field="reaches",
        ),
        *in_rest("brokers", "checked_at", "reach_count"),
    ),
)
SAMPLES = ListSpec(
    "samples",
    columns=(
        Column("at", "From"),
        Column("offset_lag", "Lag", number=True, title="Most records not yet copied"),
        Column(
            "time_lag_ms",
            "RPO",
            number=True,
            title="Greatest age of the oldest record not yet copied",
        ),
        Column("records_per_second", "Records/s", number=True),
        Column("bytes_per_second", "Bytes/s", number=True),
        Column(
            "out_of_sync", "Not in sync", number=True, title="Maximum of partitions not in sync"
        ),
        *in_files("unknown_partitions", "latency_ms", "heartbeat_age_ms"),
    ),
)
FLOWS_BY_TROUBLE = ListSpec(
    "flows by trouble",
    rows="flows",
    columns=(
        Column("label", "Flow"),
        Column("shown_state", "State"),
        Column("offset_lag", "Lag", number=True, total="account.total"),
        Column(
            "time_lag_ms",
            "RPO",
            number=True,
            title="Age of the oldest record not yet replicated: what a failover would lose now",
            total="account.total",
        ),
        *in_files("rpo_seconds"),
        on_page("Last hour", title="RPO, minute by minute"),
        Column("bytes_per_second", "Rate", number=True, title="What is replicated now"),
        Column("ready", "Readiness", number=True, title="Readiness of the standby, of 100"),
        *in_files("proof.state"),
        Column("proof.at", "Last drill", title="When a drill last passed"),
        Column("since", "Since"),
        *in_files("as_of"),
        Column("reason", "Reason"),
    ),
)
_LAGS = tuple(Column(key, field=None, total="total") for key in ("time_lag_ms", "offset_lag"))
# The overview shows these without headings.
WORST_TOPICS = ListSpec(
    "topics furthest behind",
    rows="worst",
    columns=(*in_files("flow.name", "topic"), *_LAGS, *in_files("as_of")),
)
WORST_GROUPS = ListSpec(
    "groups furthest behind",
    rows="groups",
    columns=(*in_files("flow.name", "group", "topic"), *_LAGS),
)
COMPONENTS = ListSpec(
    "component health",
    rows="whose",
    columns=(
        Column("name", "Component"),
        Column("what", "Kind"),
        Column("state", "State"),
        Column("seen_at", "Last seen"),
        Column("reason", "Reason"),
    ),
)
RPO_CURVE = ListSpec("rpo curve", rows="chart.minutes", columns=in_files("at", "rpo_ms"))
TOPIC_GROUPS = ListSpec(
    "groups of a topic",
    rows="groups",
    columns=(
        Column("group", "Group"),
        Column("sync", "Offset sync"),
        Column("lag", "Lag on the source", number=True, title="Records; null if unknown"),
        Column("ready", "Resume ready", number=True, title="Partitions with a resume offset"),
        *in_files("partitions"),
    ),
)
TOPIC_GAPS = ListSpec(
    "gaps of a topic",
    rows="gaps",
    columns=(
        Column("partition", "Partition"),
        Column("kind", "Kind"),
        Column("state", "State"),
        Column("opened_at", "Found"),
    ),
)
COSTS = ListSpec(
    "costs",
    rows="rows",
    columns=(
        Column("name", "Flow"),
        Column("bytes", "Sent this month", number=True, title="Bytes sent to the target"),
        Column("cost", "Cost so far", number=True),
        Column("forecast", "Forecast", number=True, title="Of the month, at the mean rate so far"),
        Column("budget", "Budget", number=True),
        Column("share", "Forecast of budget", number=True),
        *in_files("currency"),
    ),
)
TOPIC_COSTS = ListSpec(
    "costs of topics",
    rows="topics",
    columns=(
        Column("topic", "Topic"),
        Column("bytes", "Sent this month", number=True),
        Column("share", "Share of the flow", number=True),
        Column("cost", "Cost so far", number=True),
    ),
)
COMPRESSION = ListSpec(
    "compression of topics",
    rows="samples",
    columns=(
        Column("topic", "Topic"),
        Column("codec", "Codec", title="Codec of most of the bytes"),
        Column("mean", "Records per batch", number=True),
        Column("bytes", "Sample", number=True, title="Bytes of whole batches on the target"),
        Column("saves_codec", "zstd saves", number=True, title="The same batches with zstd"),
        Column(
            "saves_batches",
            "Large batches save",
            number=True,
            title="Batches of 128 KiB before compression, with the codec in use",
        ),
        Column("saves_both", "Both save", number=True),
        *in_files("records", "batches", "codec_bytes", "batches_bytes", "both_bytes"),
    ),
)
TOPIC_CONFIGS = ListSpec(
    "configs of a topic",
    rows="config_rows",
    columns=(
        Column("key", "Config"),
        Column("source", "Source"),
        Column("target", "Target"),
        Column("verdict", "State"),
        Column("reason", "Reason"),
        *in_files("source_set", "target_set"),
    ),
)
TOPIC_CHANGES = ListSpec(
    "manual changes of a topic",
    rows="drift",
    columns=(
        Column("key", "Config or ACL"),
        Column("expected", "Set by the flow"),
        Column("found", "Found"),
        Column("state", "State"),
        *in_files("kind"),
    ),
)

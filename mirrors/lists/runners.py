"""The list of runners, and the runners of pools with their loads."""

from __future__ import annotations

from mirrors.domain.states.runners import RUNNER
from mirrors.lists.columns import Column, ListSpec, in_files, in_rest

RUNNERS = ListSpec(
    "runners",
    columns=(
        Column("name", "Runner", ("name",)),
        Column("state", "State", ("state",)),
        Column("flow_count", "Flows", ("flow_count",), number=True, field=None),
        Column("slots_used", "Slots in use", ("slots_used",), number=True),
        Column("rss_bytes", "Memory", ("rss_bytes",), number=True),
        Column("master", "Spark master", ("master",)),
        Column("host", "Host", ("host",)),
        Column("seen_at", "Last seen", ("seen_at",)),
        Column("reason", "Reason"),
        *in_rest("slots", "since", "pid", "started_at", "memory", "application_id"),
        *in_rest("failover_hosts", "moved_at", "moved_from", "move_reason", "move_to"),
        *in_rest("move_requested_by", "move_requested_at", "pool", "auto_balance"),
        *in_rest("spark_ui", "spark_ui_url", "event_log", "spark_warnings"),
        *in_rest("healthy", "health_reason", "retired_at"),
    ),
    search=("name", "master", "host", "reason"),
    default="name",
    filters={"state": RUNNER.names},
)
POOL_RUNNERS = ListSpec(
    "runners of a pool",
    rows="pool_runners",
    columns=(
        *in_files("row.pool"),
        Column("row.name", "Runner"),
        Column("load.flows", "Flows", number=True),
        Column("load.partitions", "Partitions", number=True),
        Column("load.bytes_per_second", "Bytes/s", number=True),
        Column(
            "load.ratio",
            "Load",
            number=True,
            title="Relative to an even share; the load is bytes per second and a part for each "
            "partition",
        ),
        Column("row.rss_bytes", "Memory", number=True),
        Column("row.host", "Host"),
        Column("row.auto_balance", "Moves flows"),
        Column("refuses", "Takes flows"),
        *in_files("load.unknown"),
    ),
)

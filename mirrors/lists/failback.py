"""Lists of failbacks: runs, divergence points, orphans, groups, starts, switchovers."""

from __future__ import annotations

from mirrors.lists.columns import Column, ListSpec, in_files, in_rest

FAILBACKS = ListSpec(
    "failbacks",
    columns=(
        Column("pk", field="id"),
        Column("created_at", "Requested"),
        Column("state", "State"),
        Column("requested_by", "By"),
        Column("reason", "Reason"),
        *in_rest("flow", "flow_name", "reverse", "since", "asked_reason", "starts", "changes"),
        *in_rest("groups", "groups_at", "listed_at", "ended_at", "failover", "scope"),
    ),
)
DIVERGENCE = ListSpec(
    "divergence",
    columns=(
        Column("topic", "Topic", ("topic",)),
        Column("partition", "Partition", ("partition",), number=True),
        Column(
            "position",
            "Position",
            ("position",),
            number=True,
            title="The first source offset that was not replicated",
        ),
        Column("remote_topic", "Remote topic"),
        Column(
            "downstream",
            "Divergence",
            ("downstream",),
            number=True,
            title="The first target offset that did not come from the source",
        ),
        Column("how", "Known by"),
        Column("kept_at", "Kept"),
        *in_rest("end", "source_cluster", "source_topic_id", "target_cluster"),
        *in_rest("target_topic_id", "mark"),
    ),
    search=("topic", "remote_topic"),
)
ORPHANS = ListSpec(
    "orphans",
    columns=(
        *in_rest("id"),
        Column("topic", "Topic"),
        Column("partition", "Partition", number=True),
        Column("remote_topic"),
        Column("state", "State"),
        Column("records", "Records", number=True),
        Column("bytes", "Bytes", number=True),
        Column("first", "First offset", number=True),
        Column("end", "End", number=True),
        Column("gone"),
        Column("reason", "Outcome"),
        *(Column(key) for key in ("decision", "decided_by", "decided_why")),
        *in_rest("certainty", "kept", "settled_to", "decided_at"),
    ),
)
ORPHAN_RECORDS = ListSpec(
    "orphan records",
    columns=(
        *in_files("topic", "partition"),
        Column("offset", "Offset", number=True),
        Column("timestamp", "Time (ms)", number=True),
        Column("key", "Key"),
        Column("value", "Value"),
        Column("headers", "Headers", number=True),
    ),
)
FAILBACK_GROUPS = ListSpec(
    "failback groups",
    columns=(
        Column("group", "Group"),
        Column("topic", "Topic"),
        Column("partition", "Partition", number=True),
        Column("offset", "Offset", number=True, title="On the standby"),
        Column("to_topic", "Resumes in"),
        Column("to_offset", "At", number=True),
        Column("state", "State"),
        Column("reason", "Reason"),
    ),
)
STARTS = ListSpec(
    "starts",
    columns=(
        Column("topic", "Topic"),
        Column("partition", "Partition", number=True),
        Column("kind", "How"),
        Column("offset", "Offset", number=True),
        Column("reason", "Reason"),
    ),
)
SWITCHOVERS = ListSpec(
    "switchovers",
    columns=(
        Column("pk", "Run"),
        *in_files("kind"),
        Column("state", "State"),
        Column("created_at", "Requested"),
        Column("reason", "Result"),
    ),
)

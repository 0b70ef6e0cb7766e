"""Lists of consumer groups: group-partitions of a flow, groups of a cluster."""

from __future__ import annotations

from mirrors.domain.groups.checkpoints import SYNC_STATES
from mirrors.lists.columns import Column, ListSpec, in_rest

# Kafka's states of classic and consumer groups (KIP-848).
GROUP_STATES = (
    "Stable",
    "Empty",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
)
GROUP_PARTITIONS = ListSpec(
    "group-partitions",
    columns=(
        Column("group", "Group", ("group", "topic", "partition")),
        Column("topic", "Topic", ("topic", "group", "partition")),
        Column("partition", "Partition", ("partition", "topic", "group"), number=True),
        Column(
            "source_offset",
            "On source",
            ("source_offset",),
            number=True,
            title="The next offset that the group reads on the source",
        ),
        Column(
            "translated_offset",
            "Translated",
            ("translated_offset",),
            number=True,
            title="The same position on the target, by the exact offset map",
        ),
        Column(
            "target_offset",
            "On target",
            ("target_offset",),
            number=True,
            title="The resume offset of the group on the target now",
        ),
        Column(
            "source_lag",
            "Lag",
            ("source_lag",),
            number=True,
            title="Records on the source after the group's offset, as kafka-consumer-groups counts",
        ),
        Column(
            "re_reads",
            "Re-reads",
            ("re_reads",),
            number=True,
            title="Records that the group would read again after a failover, at most",
        ),
        Column("outcome", "Map", ("outcome",), title="How the offset on the target was found"),
        Column("sync_state", "State", ("sync_state",)),
        Column("as_of", "As of", ("as_of",)),
        Column("reason", "Reason"),
        *in_rest("remote_topic"),
    ),
    search=("group", "topic", "reason"),
    default="group",
    filters={"sync_state": SYNC_STATES},
    tie=("group", "topic", "partition", "route"),
)
CLUSTER_GROUPS = ListSpec(
    "cluster groups",
    columns=(
        Column("group", "Group", ("group",)),
        Column("topics", "Topics", ("topics",), number=True),
        Column("places", "Partitions", ("places",), number=True, field="partitions"),
        Column("flows", "Flows", ("flows",), number=True),
        Column(
            "moved",
            "In place",
            ("moved",),
            number=True,
            title="Partitions in which a target has the group's resume offset",
        ),
        Column("last_seen", "As of", ("last_seen",), field="as_of"),
    ),
    search=("group",),
    default="group",
    tie=("group",),
)
CONSUMER_GROUPS = ListSpec(
    "consumer groups",
    columns=(
        Column("group", "Group", ("group",)),
        Column(
            "label",
            "Flow",
            ("flow__source__alias", "flow__target__alias"),
            field="flow_name",
        ),
        Column(
            "group_state",
            "State",
            ("group_state",),
            title="State on the source, by Kafka's name, at the last listing",
            field="state",
        ),
        Column(
            "lag",
            "Lag",
            ("least_lag",),
            number=True,
            title="Records on the source after the group's offsets, in replicated partitions; "
            "null while a partition is unknown",
        ),
        Column("worst", "Worst partition", in_file=False, title="The partition with most lag"),
        Column(
            "ready",
            "Resume ready",
            ("unready",),
            number=True,
            title="Partitions with a known resume offset on the target, of all replicated ones",
        ),
        Column(
            "re_reads",
            "Re-reads",
            ("least_re_reads",),
            number=True,
            title="Records that the group would read again after a failover, at most; "
            "null while a partition is unknown",
        ),
        Column(
            "sync",
            "Offset sync",
            ("rank",),
            title="The worst outcome of the offset sync over the group's partitions",
            field="sync_state",
        ),
        Column("reason", "Reason"),
        Column(
            "seen_at",
            "As of",
            ("seen_at",),
            title="Age of the oldest figure of this group",
            field="as_of",
        ),
        Column("partitions"),
        Column("least_lag", title="Lag in the partitions where it is known"),
        Column("lag_reason", title="Why the lag is unknown; empty if it is known"),
        *in_rest("flow"),
    ),
    search=("group",),
    default="sync",
    filters={"sync": SYNC_STATES, "group_state": GROUP_STATES},
    tie=("-least_lag", "group", "flow"),
)

"""Lists of consumer groups: group-partitions of a flow, groups of a cluster."""

from __future__ import annotations

from mirrors.domain.groups.checkpoints import SYNC_STATES
from mirrors.lists.columns import Column, ListSpec, in_rest

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
        Column("outcome", "Map", ("outcome",), title="How the offset on the target was found"),
        Column("sync_state", "State", ("sync_state",)),
        Column("as_of", "As of", ("as_of",)),
        Column("reason", "Reason"),
        *in_rest("remote_topic"),
    ),
    search=("group", "topic", "reason"),
    default="group",
    filters={"sync_state": SYNC_STATES},
    tie=("group", "topic", "partition"),
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

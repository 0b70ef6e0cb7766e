"""Lists of comparisons: runs, aspects, findings, partitions."""

from __future__ import annotations

from mirrors.domain.states.runs import COMPARISON
from mirrors.lists.columns import Column, ListSpec, in_rest, on_page
from mirrors.models.comparison import PartVerdict, Verdict

ABOUTS = ("topic", "partition", "config", "acl", "group", "content")

COMPARISONS = ListSpec(
    "comparisons",
    columns=(
        Column("pk", "Comparison", ("pk",), number=True, field="id"),
        Column("label", "Flow", ("flow__source__alias", "flow__target__alias"), field="flow_name"),
        Column("state", "State", ("state",)),
        Column("verdict", "Result", ("verdict",)),
        Column("created_at", "Requested", ("created_at",)),
        Column("ended_at", "Duration"),
        Column("requested_by", "By", ("requested_by",)),
        Column("reason", "Reason"),
        *in_rest("flow", "since", "topics", "content", "records", "seconds", "megabytes"),
        *in_rest("megabytes_per_second", "engine", "engine_reason"),
        *in_rest("asked_reason", "progress", "summary", "spent_ms", "read_bytes", "started_at"),
    ),
    search=("label", "requested_by", "reason", "why"),
    default="-pk",
    filters={"state": COMPARISON.names, "verdict": tuple(Verdict.values)},
)
ASPECTS = ListSpec(
    "aspects",
    columns=(
        Column("about", "What"),
        on_page("State"),
        Column("compared", "Compared", number=True),
        Column("differs", "Differ", number=True),
        Column("left_out", "Not compared"),
    ),
)
FINDINGS = ListSpec(
    "findings",
    columns=(
        Column("about", "About", ("about", "name", "partition")),
        Column("weight", "Weight", ("weight", "id")),
        Column("kind", "What", ("kind", "name", "partition")),
        Column("name", "Name", ("name", "partition", "source_offset")),
        Column("partition", "Partition", ("partition", "name"), number=True),
        Column("source_offset", "Source offset", ("source_offset",), number=True),
        Column("target_offset", "Target offset", ("target_offset",), number=True),
        Column("sentence", "Finding"),
    ),
    search=("name", "sentence"),
    default="weight",
    filters={"about": ABOUTS, "weight": ("differs", "note")},
)
PARTITIONS = ListSpec(
    "compared partitions",
    columns=(
        Column("topic", "Topic", ("topic", "partition")),
        Column("partition", "Partition", ("partition", "topic"), number=True),
        Column("verdict", "Content", ("verdict", "topic", "partition")),
        Column(
            "source_records",
            "Source records",
            ("source_records",),
            number=True,
            title="Records that were read on the source",
        ),
        Column(
            "target_records",
            "Target records",
            ("target_records",),
            number=True,
            title="Records that were read on the target",
        ),
        Column("differences", "Differences", ("differences",), number=True),
        Column(
            "explained",
            "Compacted",
            ("explained",),
            number=True,
            title="Records that one side compacted and the other still has",
        ),
        Column(
            "unread",
            "Not read",
            ("unread",),
            number=True,
            title="Source offsets in the requested range that were not compared",
        ),
        Column("source_first", "From", ("source_first",), number=True),
        Column("next", "To", ("next",), number=True, title="End of the compared range, exclusive"),
        Column("target_first", "Target from", ("target_first",), number=True),
        Column("target_end", "Target to", ("target_end",), number=True),
        Column(
            "source_digest",
            "Digest",
            title="Digest of the source; where all records match, also of the target",
        ),
        Column("target_digest", "Target digest"),
        Column("reason", "Reason"),
        *in_rest("remote_topic", "source_end", "compacted", "rule"),
    ),
    search=("topic", "remote_topic", "reason"),
    default="verdict",
    filters={"verdict": tuple(PartVerdict.values)},
)
CONFLICT_REPORTS = ListSpec(
    "conflict reports",
    columns=(
        Column("pk", "Report", ("pk",), number=True, field="id"),
        Column("requested_at", "Requested", ("requested_at",)),
        Column("requested_by", "By", ("requested_by",)),
        Column("window_seconds", "Window (s)", ("window_seconds",), number=True),
        Column("period_seconds", "Period (s)", ("period_seconds",), number=True),
        Column(
            "keys",
            "Keys",
            ("keys",),
            number=True,
            title="Keys that producers wrote on both sides within the window",
        ),
        Column(
            "differing",
            "Different now",
            ("differing",),
            number=True,
            title="Listed keys with different values on both sides at the end",
        ),
        Column("sentence", "Result"),
        Column("error", "Failure"),
        *in_rest("flow", "flow_name", "state", "topics", "records", "copies", "limits"),
        *in_rest("as_of", "ended_at"),
    ),
    rows="reports",
)
CONFLICT_KEYS = ListSpec(
    "conflicting keys",
    columns=(
        Column("topic", "Topic", ("topic", "id")),
        Column("key", "Key", title="For people who may not read records: the digest of the key"),
        Column("conflicts", "Conflicts", ("conflicts", "id"), number=True),
        Column(
            "agrees",
            "Now",
            ("agrees", "id"),
            title="Whether both logs end with the same value for the key",
        ),
        Column("source_partition", "Partition", number=True),
        Column("source_offset", "Source offset", ("source_offset", "id"), number=True),
        Column("source_at", "Source time", ("source_at", "id")),
        Column("source_value", "Source value", title="Digest of the value; null: a tombstone"),
        Column("target_offset", "Target offset", ("target_offset", "id"), number=True),
        Column("target_at", "Target time", ("target_at", "id")),
        Column("target_value", "Target value", title="Digest of the value; null: a tombstone"),
        Column("source_last_offset", "Last on the source", number=True),
        Column("target_last_offset", "Last on the target", number=True),
        *in_rest("id", "digest", "target_partition", "source_last_value", "target_last_value"),
    ),
    search=("topic", "digest"),
    default="source_at",
    filters={"agrees": ("True", "False")},
)

"""Lists of flows: flows, topics, partitions, jobs, transitions, lanes, log lines, settings."""

from __future__ import annotations

import typing

from django.db.models import Case, IntegerField, When

from mirrors.domain.runners.job_files import TopicState
from mirrors.domain.states.flows import JOB, OBSERVED
from mirrors.lists.columns import Column, ListSpec, in_files, in_rest, on_page

STATES = typing.get_args(TopicState)
_SKIPPED_LAST = Case(When(state="skipped", then=1), default=0, output_field=IntegerField())

# Sorted by the highest latency: the last number of `domain.flows.latency.Latency`.
LATENCY = Column("latency", sort=("latency__3",), in_file=False)
LAG_OF_FLOW = Column(
    "offset_lag",
    "Lag",
    ("owed",),
    number=True,
    title="Records not yet replicated",
    total="account.total",
)

FLOWS = ListSpec(
    "flows",
    columns=(
        *in_rest("id"),
        Column("label", "Flow", ("source__alias", "target__alias"), field="name"),
        *in_rest("source", "target", "labels", "properties", "transforms", "desired_state"),
        Column("observed_state", "State", ("observed_state",)),
        LAG_OF_FLOW,
        Column(
            "time_lag_ms",
            "Time lag",
            ("time_lag_ms",),
            number=True,
            title="Age of the oldest record not yet replicated: what a failover would lose now",
            total="account.total",
        ),
        Column("copied", "Topics", ("copied",), number=True, field=None),
        Column(
            "proof.at", "Last drill", ("proven_at",), title="When a drill last passed", field=None
        ),
        Column("runner.name", "Runner", ("runner__name",), field="runner"),
        Column("since", "Since", ("since",)),
        Column("reason", "Reason"),
        *in_rest("generation", "retry_at", "warnings", "as_of", "owed", "stopped_partitions"),
        *in_rest(
            "waiting_records",
            "repeats",
            "dead_letters",
            "dead_letter_topic",
            "proven",
            "start_refusal",
            "speed",
            "packing",
        ),
        *in_rest("latency", "created_at"),
    ),
    search=("label", "runner__name", "reason"),
    default="label",
    filters={"observed_state": OBSERVED.names},
)
TOPICS = ListSpec(
    "topics",
    columns=(
        Column("topic", "Topic", ("topic",)),
        Column("state", "State", ("state",)),
        Column(
            "offset_lag",
            "Lag",
            ("owed",),
            number=True,
            title="Records not replicated, at most: markers and compacted records have offsets too",
            total="total",
        ),
        Column("time_lag_ms", "Time lag", ("time_lag_ms",), number=True, total="total"),
        Column(
            "records_per_second",
            "Records/s",
            ("records_per_second",),
            number=True,
            title="Records replicated per second, mean of the last five minutes; null if unknown",
        ),
        Column(
            "bytes_per_second",
            "Bytes/s",
            ("bytes_per_second",),
            number=True,
            title="The same in bytes, as sent to the target",
        ),
        Column("partitions", "Partitions", ("partitions",), number=True),
        Column("remote_topic", "Remote topic", ("remote_topic",)),
        Column("reason", "Reason"),
        *in_rest("code", "owed", "as_of"),
        LATENCY,
        Column(
            "records", title="Records replicated since the flow first copied the topic", number=True
        ),
        Column("bytes", title="The same in bytes, as sent to the target", number=True),
    ),
    search=("topic", "remote_topic", "reason"),
    default="-offset_lag",
    filters={"state": STATES},
    tie=(_SKIPPED_LAST, "topic"),
)
BEHIND = ListSpec(
    "topics behind",
    rows="behind",
    columns=(
        Column("topic", "Topic"),
        Column("state", "State"),
        Column("offset_lag", "Lag", number=True, total="total"),
        Column("time_lag_ms", "Time lag", number=True, total="total"),
        Column("reason", "Reason"),
    ),
)
PARTITIONS = ListSpec(
    "partitions",
    columns=(
        Column("topic", "Topic", ("topic", "partition")),
        Column("partition", "Partition", ("partition", "topic"), number=True),
        Column("state", "State", ("state",)),
        Column("offset_lag", "Lag", ("offset_lag",), number=True, total="total"),
        Column("time_lag_ms", "Time lag", ("time_lag_ms",), number=True, total="total"),
        Column(
            "position",
            "Position",
            ("position",),
            number=True,
            title="The next source offset to replicate; committed on the target with the data",
        ),
        Column(
            "source_stable_end",
            "Stable end",
            ("source_stable_end",),
            number=True,
            title="Last stable offset of the source: the flow reads up to here",
        ),
        Column("source_end", "Source end", ("source_end",), number=True),
        Column(
            "lane", "Lane", ("lane",), title="How batches are replicated: raw, repack or record"
        ),
        Column("why", "Why", ("why",), title="Why the last batch was rewritten"),
        Column(
            "verified_offset",
            "Verified to",
            number=True,
            title="Comparisons found the records below this source offset the same on both sides",
        ),
        Column("as_of", "As of", ("as_of",)),
        Column("reason", "Reason"),
        *in_rest("verified_at", "remote_topic", "source_first", "code", "owed", "repeats"),
        *in_rest("dead_letters"),
        LATENCY,
    ),
    search=("topic", "remote_topic", "reason", "why"),
    default="-offset_lag",
    filters={"state": STATES},
    tie=("topic", "partition"),
)
JOBS = ListSpec(
    "jobs",
    columns=(
        Column("pk", "Job", ("pk",), number=True, field="id"),
        Column("state", "State", ("state",)),
        Column("started_at", "Started", ("started_at",), field="started"),
        Column("ended_at", "Duration", (), number=True, field="ended"),
        Column("records", "Records", ("records",), number=True),
        Column("bytes", "Bytes", ("bytes",), number=True),
        Column("attempt", "Attempt", ("attempt",), number=True),
        Column("generation", "Edition", ("generation",), number=True),
        Column("runner.name", "Runner", ("runner__name",), field="runner"),
        Column("reason", "Reason"),
        *in_rest("error", "lanes", "as_of"),
    ),
    search=("reason", "error", "runner__name"),
    default="-pk",
    filters={"state": JOB.names},
)
# Transitions of a job, and of its flow while the job ran.
JOB_TRANSITIONS = ListSpec(
    "job transitions",
    columns=(
        Column("when", "When", ("pk",)),
        Column("subject", "Of", ("subject", "pk")),
        Column("from_state", "From"),
        Column("to_state", "To", ("to_state",)),
        Column("who", "Who", ("who",)),
        Column("why", "Why"),
    ),
    search=("who", "why", "to_state"),
    default="-when",
)
LANES = ListSpec(
    "lanes",
    rows="lane_shares",
    columns=(
        Column("lane", "Lane"),
        Column("why", "Why"),
        Column("batches", "Batches", number=True),
        Column("percent", "Share", number=True, field=None),
        Column("records", "Records", number=True),
        Column("bytes", "Bytes", number=True),
    ),
)
LOG = ListSpec(
    "log",
    rows="log_entries",
    columns=(Column("when", "When"), Column("level", "Level"), Column("text", "Line")),
)
SETTINGS = ListSpec(
    "settings",
    columns=(
        Column("key", "Key"),
        Column("value", "Value"),
        Column("given", "Set here"),
        Column("meaning", "What it means"),
    ),
)
TRANSFORM_RULES = ListSpec(
    "rules on records",
    columns=(
        Column("number", "Rule", number=True),
        Column("topics", "Topics", title="The first rule that matches a topic applies"),
        Column("where", "Kept if", title="Other records are dropped"),
        Column("changes", "Changes"),
        Column("on_error", "On error", title="Stop the partition, or write a dead letter"),
        Column("matched", "Applies to", number=True, title="Replicated topics as last seen"),
        Column("examples", "For example"),
    ),
)
PREVIEWED_RECORDS = ListSpec(
    "previewed records",
    columns=(
        Column("partition", "Partition", number=True),
        Column("offset", "Offset", number=True),
        Column("timestamp", "Time"),
        Column("outcome", "Result"),
        *in_files("changes", "target", "failed", "message"),
        *in_files("before_key", "before_value", "before_headers"),
        *in_files("after_key", "after_value", "after_headers"),
        on_page("Before"),
        on_page("After"),
    ),
)
PREVIEWED_PATHS = ListSpec(
    "previewed paths",
    columns=(
        Column("path", "Path"),
        Column("function", "Function"),
        Column("field", "Field of the rule"),
        Column("records", "Records with it", number=True, title="Of those that were looked at"),
    ),
)
EXPLANATION = ListSpec(
    "explanation",
    rows="verdict.rules",
    columns=(Column("rule", "Rule"), Column("passed", "Verdict"), Column("reason", "Why")),
)

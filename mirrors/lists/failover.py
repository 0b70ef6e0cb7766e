"""Lists of failovers: runs, steps, group-partitions, partitions at risk, clients, decisions."""

from __future__ import annotations

from mirrors.domain.states.runs import FAILOVER_RUN
from mirrors.lists.columns import Column, ListSpec, in_files, in_rest, on_page
from mirrors.models.failover import FailoverKind, Verification

FAILOVERS = ListSpec(
    "failovers",
    columns=(
        Column("pk", "Run", ("pk",), number=True, field="id"),
        Column("label", "Flow", ("flow__source__alias", "flow__target__alias"), field="flow_name"),
        Column("kind", "Kind", ("kind",)),
        Column("state", "State", ("state",)),
        Column("verification", "Verified", ("verification",)),
        Column("created_at", "Requested", ("created_at",)),
        Column("ended_at", "Duration"),
        Column("requested_by", "By", ("requested_by",)),
        Column("reason", "Result"),
        *in_rest("flow", "verification_reason", "since", "groups", "scope"),
        *in_rest("asked_reason", "simulation"),
        *in_rest("waits_for", "approved_by", "abort_asked_by", "pause_asked_by", "progress"),
        *in_rest("started_at", "counted_loss", "counted_loss_certainty", "counted_re_reads"),
        *in_rest("counted_re_reads_certainty", "counted_sentence", "counted_at"),
    ),
    search=("label", "requested_by", "reason", "why"),
    default="-pk",
    filters={
        "state": FAILOVER_RUN.names,
        "verification": tuple(Verification.values),
        "kind": tuple(FailoverKind.values),
    },
)
STEPS = ListSpec(
    "steps",
    columns=(
        *(Column(key) for key in ("number", "name")),
        Column("does", "Step"),
        Column("state", "State"),
        Column("attempt", "Attempts", number=True),
        Column("started_at"),
        Column("ended_at", "Duration", number=True),
        Column("reason", "Result"),
        Column("undo_reason"),
        *in_rest("acting_at", "acted_at", "due_at", "result", "command", "runbook"),
        *in_rest("confirmed_by", "undone_at"),
    ),
)
SIMULATED_GROUPS = ListSpec(
    "simulated groups",
    columns=(
        Column("group", "Group"),
        Column("topic"),
        Column("partition", "Partition", number=True),
        Column("remote_topic", "Remote topic"),
        Column("source_offset", "Source offset", number=True, title="The next offset there"),
        Column("downstream_offset", "Downstream", number=True, title="Resume offset on the target"),
        Column("outcome"),
        Column("verdict", "State"),
        Column(
            "loss",
            "Lost",
            number=True,
            title="Records of the partition that are not on the target",
        ),
        Column("loss_is"),
        Column(
            "unread_loss",
            "Of these unread",
            number=True,
            title="Those that the group has not consumed either",
        ),
        Column("re_reads", "Duplicates", number=True, title="Records that it would read again"),
        *in_files("skipped", "in_order", "compared", "last_consumed_at"),
        *in_files("first_offset", "first_timestamp"),
        Column("first_record_ms", "First record", number=True),
        Column(
            "waiting",
            "Waiting",
            number=True,
            title="Records on the target that it has to read, at most",
        ),
        *in_files("drain_ms"),
        Column("reason", "Reason"),
    ),
)
RESET_GROUPS = ListSpec(
    "reset groups",
    columns=(
        Column("group", "Group"),
        Column("topic"),
        Column("remote_topic", "Remote topic"),
        Column("partition", "Partition", number=True),
        Column("source_offset", "Source offset", number=True),
        Column("downstream_offset", "Set to", number=True),
        Column("state", "State"),
        Column("reason", "Reason"),
    ),
)
# The page shows them as sentences.
PRECONDITIONS = ListSpec(
    "preconditions", rows="found", columns=in_files("weight", "code", "where", "sentence", "page")
)
PARTITIONS_AT_RISK = ListSpec(
    "partitions at risk",
    columns=(
        Column("topic", "Topic"),
        Column("partition", "Partition", number=True),
        Column("position", "Position", number=True),
        Column(
            "source_end",
            "Source end",
            number=True,
            title="Last stable offset: what a flow may read",
        ),
        Column("source_end_age_ms", "Seen", number=True),
        Column("loss", "Lost", number=True),
        Column("reason", "Reason"),
    ),
)
CLIENTS = ListSpec(
    "clients",
    rows="plan.clients",
    columns=(
        Column("group", "Client"),
        Column("bootstrap", "bootstrap.servers"),
        Column("topics", "Topics on the target"),
        Column("pattern", "Pattern"),
        Column("sentence", "Change"),
    ),
)
LEFT_BEHIND = ListSpec(
    "left behind",
    rows="rows",
    columns=(
        *in_rest("id"),
        Column("topic", "Topic"),
        Column("partition", "Partition"),
        *in_files("is_whole"),
        Column("reason", "Reason"),
        Column("decided_by", "Decided by"),
        Column("decided_at", "When"),
        on_page("Withdraw", hidden=True),
        *in_rest("withdrawn_by", "withdrawn_at", "withdrawn_why"),
    ),
)

"""Lists about the target's topics: the plan of a flow, and drift."""

from __future__ import annotations

from mirrors.domain.states.findings import DRIFT as DRIFT_STATES
from mirrors.domain.topics.drift import KINDS
from mirrors.lists.columns import Column, ListSpec, in_rest

PLAN = ListSpec(
    "plan",
    rows="plan.changes",
    columns=(
        Column("kind", "What"),
        Column("name", "Name"),
        Column("before", "Before"),
        Column("after", "After"),
        Column("reason", "Reason"),
    ),
)
TOPIC_PREVIEW = ListSpec(
    "previewed topics",
    rows="preview.rows",
    columns=(
        Column("topic", "Topic on the source"),
        Column("remote_topic", "Topic on the target"),
        Column("replicated", "Replicated"),
        Column("reason", "Rule"),
    ),
)
DRIFT = ListSpec(
    "drift",
    columns=(
        *in_rest("id", "kind"),
        Column("name", "What", ("name", "key")),
        Column("key", "Setting or ACL", ("key", "name")),
        Column("state", "State", ("state",)),
        Column("expected", "As left", title="The value that the flow last set"),
        Column("found", "Found", title="The value that was found on the target"),
        Column("opened_at", "Found at", ("opened_at",)),
        Column("expires_at", "Until", ("expires_at",)),
        Column("decided_by", "Decided by", ("decided_by",)),
        Column("reason", "Reason"),
        *in_rest("wanted", "seen_at", "closed_at", "closed_why", "decided_at", "decided_why"),
        *in_rest("digest"),
    ),
    search=("name", "key", "reason", "decided_by"),
    default="-opened_at",
    filters={"state": DRIFT_STATES.names, "kind": KINDS},
)

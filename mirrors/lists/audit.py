"""Lists of the audit: setting changes, actions of people, recent transitions."""

from __future__ import annotations

import dataclasses

from mirrors.domain.audit.actors import ACCOUNTS, ActorKind
from mirrors.lists.columns import Column, ListSpec, in_files, in_rest

SETTING_CHANGES = ListSpec(
    "setting changes",
    columns=(
        *in_rest("id"),
        Column("when", "When", ("pk",)),
        Column("key", "Key", ("key",)),
        Column("before", "Before"),
        Column("after", "After"),
        Column("who", "Who", ("who",)),
        Column("generation", "Edition", ("generation",), number=True),
    ),
    search=("key", "before", "after", "who"),
    default="-when",
)
EVENTS_OF_FLOW = ListSpec(
    "events of a flow",
    columns=(
        *in_rest("id"),
        Column("when", "When", ("pk",)),
        Column("who", "Who", ("who",)),
        Column("subject", "Of", ("subject", "name")),
        Column("name", "Name", ("name",)),
        Column("field", "What", ("field",)),
        Column("from_state", "From", field="from"),
        Column("to_state", "To", ("to_state",), field="to"),
        Column("why", "Why"),
        Column("kind", "By", ("kind",), title="A person, a token of a person, or a process"),
        Column("result", "Result", ("result",)),
        *map(Column, ("address", "reference", "detail", "position", "digest")),
    ),
    search=("who", "why", "name", "to_state"),
    default="-when",
    filters={
        "subject": ("flow", "job", "failoverrun"),
        "field": ("desired_state", "observed_state", "settings", "state"),
        "kind": tuple(ActorKind),
        "result": ("done", "refused"),
    },
)
SUBJECTS = (
    "user",
    "group",
    "flow",
    "cluster",
    "runner",
    "host",
    "job",
    "failoverrun",
    "failback",
    "gap",
    "drill",
    "drillrun",
    "comparison",
    "hook",
    "alertrule",
    "channel",
    "silence",
)
AUDIT = dataclasses.replace(
    EVENTS_OF_FLOW,
    name="audit",
    filters={
        **EVENTS_OF_FLOW.filters,
        "field": ("desired_state", "settings", "state", *ACCOUNTS),
        "subject": SUBJECTS,
    },
)
# Pages show them as sentences.
RECENT_TRANSITIONS = ListSpec(
    "recent transitions",
    rows="transitions",
    columns=in_files("when", "subject", "name", "field", "from_state", "to_state", "who", "why"),
)

"""Two tabs of a flow: every change of its settings, and all that people did to it."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from mirrors.models import Flow
from mirrors.models.edits import SettingChange
from mirrors.views.tables import Column, Question

RECENT = 12
HISTORY = Question(
    columns=(
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
AUDIT = Question(
    columns=(
        Column("when", "When", ("pk",)),
        Column("who", "Who", ("who",)),
        Column("subject", "Of", ("subject", "name")),
        Column("name", "Name", ("name",)),
        Column("field", "What", ("field",)),
        Column("from_state", "From"),
        Column("to_state", "To", ("to_state",)),
        Column("why", "Why"),
    ),
    search=("who", "why", "name", "to_state"),
    default="-when",
    filters={"field": ("desired_state", "settings", "state")},
)


def setting_changes(flow: Flow) -> QuerySet[SettingChange]:
    return SettingChange.objects.filter(flow=flow)


def recent_changes(flow: Flow) -> dict[str, Any]:
    """For the tab of the settings: the last changes, and whether there are more."""
    rows = list(setting_changes(flow)[: RECENT + 1])
    return {"changes": rows[:RECENT], "more_changes": len(rows) > RECENT}

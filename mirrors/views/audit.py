"""The audit page: every change with its author, time and reason."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.audit import AUDIT, SUBJECTS
from mirrors.models import Flow, SettingChange, Transition, has_right, needs
from mirrors.models.audit.transitions import by_people, visible_to
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import export, table_of

RECENT = 12


def without_address(row: Transition, user: Any) -> Transition:
    """The addresses of people are for admins and auditors."""
    if not has_right(user, Right.AUDIT):
        row.address = ""
    return row


@dataclasses.dataclass(frozen=True)
class TimeSpan:
    """`?from=` and `?until=` of a page with entries; None is open."""

    start: datetime | None
    end: datetime | None

    @classmethod
    def of(cls, request: HttpRequest) -> TimeSpan:
        return cls(*(_moment(request.GET.get(name, "")) for name in ("from", "until")))

    def __bool__(self) -> bool:
        return bool(self.start or self.end)

    def within(self, rows: QuerySet[Transition]) -> QuerySet[Transition]:
        if self.start:
            rows = rows.filter(when__gte=self.start)
        return rows.filter(when__lte=self.end) if self.end else rows

    @property
    def fields(self) -> list[tuple[str, str, str]]:
        """Name, label and value of both inputs of the page."""
        return [("from", "From", _typed(self.start)), ("until", "Until", _typed(self.end))]


def _moment(text: str) -> datetime | None:
    """A time in UTC, unless it names its zone; None for what is no time."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _typed(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S") if moment else ""


def setting_changes(flow: Flow) -> QuerySet[SettingChange]:
    return SettingChange.objects.filter(flow=flow)


def recent_changes(flow: Flow) -> dict[str, Any]:
    """For the settings tab: the last changes, and whether there are more."""
    rows = list(setting_changes(flow)[: RECENT + 1])
    return {"changes": rows[:RECENT], "more_changes": len(rows) > RECENT}


@require_safe
@needs(Right.VIEW)
def show_audit(request: HttpRequest) -> HttpResponseBase:
    """Lists changes by people; `?by=everybody` adds those of Understudy's own processes.

    `?from=` and `?until=` limit it to a time.
    """
    everybody = request.GET.get("by") == "everybody"
    span = TimeSpan.of(request)
    rows = span.within(visible_to(Transition.objects.all(), request.user))
    if not everybody:
        rows = by_people(rows)
    if download := export(
        request, AUDIT, rows, "audit", lambda row: without_address(row, request.user)
    ):
        return download
    table = table_of(request, AUDIT, rows)
    context = {
        "table": dataclasses.replace(table, filtered=table.filtered or bool(span)),
        "event_span": span.fields,
        "authors": [("", "By people"), ("everybody", "By anybody")],
        "by": "everybody" if everybody else "",
        "filters": [
            filter_of("subject", "Of", SUBJECTS, table.chosen),
            filter_of("field", "What", AUDIT.filters["field"], table.chosen),
            filter_of("kind", "By", AUDIT.filters["kind"], table.chosen),
            filter_of("result", "Result", AUDIT.filters["result"], table.chosen),
        ],
        "commands": [curl(request, "Read it over REST", "GET", "audit/")],
    }
    return render_page(request, "mirrors/audit/list.html", context, section="audit", every=5)

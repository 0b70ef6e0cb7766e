"""URL paths of the page that shows an alert and of its runbook."""

from __future__ import annotations

import re
from functools import cache

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from monitoring.models import Alert

# The tab of the flow page for each kind of rule; kinds in `_CHARTED` lead to the charts.
_TABS = {
    "gap": "gaps",
    "forecast": "partitions",
    "open_transaction": "partitions",
    "foreign_writes": "gaps",
    "heartbeat": "heartbeats",
    "checkpoint": "duties",
    "schemas": "schemas",
    "flow_failed": "jobs",
    "flow_degraded": "jobs",
}
_CHARTED = {"time_lag", "offset_lag", "stands"}


def page_of(alert: Alert) -> str:
    kind = alert.rule.kind if alert.rule else ""
    if alert.flow_id and kind in _TABS:
        return reverse("flow-part", args=[alert.flow_id, _TABS[kind]])
    if alert.flow_id:
        return reverse("flow-charts" if kind in _CHARTED else "flow", args=[alert.flow_id])
    return reverse("runners" if alert.subject.startswith("runner:") else "alerts")


def runbook_of(alert: Alert) -> str:
    """The URL that the rule names, otherwise the built-in runbook of its kind."""
    if alert.rule is None:
        return ""
    return alert.rule.runbook or runbook_for(alert.rule.kind, alert.flow_id)


def runbook_for(kind: str, flow: int | None) -> str:
    """The built-in runbook; with a flow, the places that it names are links to that flow."""
    address = reverse("runbook", args=[kind])
    return f"{address}?flow={flow}" if flow else address


@cache
def read_runbook(kind: str) -> tuple[str, SafeString]:
    """Title and HTML of a built-in runbook. HTML in the Markdown is escaped."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - one page needs it

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    path = settings.RESOURCE_DIR / "docs" / "runbooks" / f"{kind}.md"
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    # Links between the files become links between the pages.
    text = re.sub(r"\]\((\w+)\.md\)", r"](../\1/)", text)
    return head.lstrip("# ").strip(), mark_safe(markdown.render(text))  # noqa: S308

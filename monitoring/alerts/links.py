"""Where an alert is shown and what to do about it: addresses within these pages."""

from __future__ import annotations

import re
from functools import cache

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from monitoring.models import Alert

# The tab of a flow that shows what the kind is about; `flow-charts` has the rest.
_TABS = {
    "gap": "gaps",
    "forecast": "partitions",
    "open_transaction": "partitions",
    "foreign_writes": "gaps",
    "heartbeat": "heartbeats",
    "checkpoint": "duties",
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
    """The rule's own address where it has one, else what is written here of its kind."""
    if alert.rule is None:
        return ""
    return alert.rule.runbook or reverse("runbook", args=[alert.rule.kind])


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


@cache
def read(kind: str) -> tuple[str, SafeString]:
    """Its title and its text as HTML; the texts are ours, and no HTML in them counts."""
    path = settings.BASE_DIR / "docs" / "runbooks" / f"{kind}.md"
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    # As files they name each other; as pages they lie beside each other.
    text = re.sub(r"\]\((\w+)\.md\)", r"](../\1/)", text)
    return head.lstrip("# ").strip(), mark_safe(_MARKDOWN.render(text))  # noqa: S308

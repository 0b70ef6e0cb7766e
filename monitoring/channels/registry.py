"""The table of channel types, and the checks that the form and the REST API share.

To add a type: a value of `ChannelKind`, a file in this folder with its payload and `send`, a line
in the table, a template in `templates/monitoring/channels`, a test in `tests/monitoring/channels`.
"""

from __future__ import annotations

from mirrors.outbound_http import check_headers, is_reference, refusal
from monitoring.channels.base import ChannelType
from monitoring.channels.email import EMAIL
from monitoring.channels.pagerduty import PAGERDUTY
from monitoring.channels.slack import SLACK
from monitoring.channels.teams import TEAMS
from monitoring.channels.webhook import WEBHOOK
from monitoring.models import Channel

CHANNEL_TYPES: dict[str, ChannelType] = {
    one.kind.value: one for one in (WEBHOOK, SLACK, TEAMS, EMAIL, PAGERDUTY)
}


def errors_of(kind: str, target: str, secret: str) -> dict[str, str]:
    """Why a channel cannot be saved, by field."""
    channel_type = CHANNEL_TYPES.get(kind)
    if channel_type is None:
        return {}
    errors = {}
    check = refusal if is_reference(target) else channel_type.check_target
    if sentence := check(target):
        errors["target"] = sentence
    if channel_type.missing_key and not secret:
        errors["secret"] = channel_type.missing_key
    return errors


def refused_channels() -> dict[str, str]:
    """Saved channels whose references this deployment refuses: name -> the first reason."""
    found: dict[str, str] = {}
    rows = Channel.objects.order_by("name").values("name", "target", "secret", "headers")
    for row in rows:
        texts = [text for text in (row["target"], row["secret"]) if is_reference(text)]
        refused = [why for text in texts if (why := refusal(text))]
        if why := check_headers(row["headers"]):
            refused.append(why)
        if refused:
            found[f"Channel {row['name']}"] = refused[0]
    return found

"""The least Kafka permissions of one flow, as a person grants them."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.permissions.formats import FORMATS, principal_of, written
from mirrors.domain.permissions.required import Permission, Side, required_permissions
from mirrors.models import Flow, FlowTopic
from mirrors.models import GroupOffset as GroupRow

SIDES: tuple[Side, ...] = ("source", "target")
# Above that, names of topics that no prefix covers are no list for a person.
MOST_NAMES = 1000


def permissions_of(*, flow: Flow, failover: bool = False) -> list[Permission]:
    """By the flow's settings; patterns without a prefix become the names that match now."""
    topics = FlowTopic.objects.filter(flow=flow, remote_topic__isnull=False)
    groups = GroupRow.objects.filter(flow=flow).exclude(topic="").order_by("group")
    return required_permissions(
        flow.spec,
        topics=list(topics.order_by("topic").values_list("topic", flat=True)[:MOST_NAMES]),
        groups=list(groups.values_list("group", flat=True).distinct()[:MOST_NAMES]),
        failover=failover,
    )


def permissions_document(*, flow: Flow, form: str, failover: bool) -> dict[str, Any]:
    """What pages, REST and the command show. Raises InvalidSettings for an unknown form."""
    if form not in FORMATS:
        raise InvalidSettings({"form": [f"{form[:40]} is not one of {', '.join(FORMATS)}."]})
    found, spec = permissions_of(flow=flow, failover=failover), flow.spec
    clusters = {"source": spec.source, "target": spec.target}
    return {
        "flow": flow.name,
        "form": form,
        "failover": failover,
        "sides": [
            {
                "side": side,
                "cluster": clusters[side].alias,
                "principal": principal_of(clusters[side]),
                "permissions": [dataclasses.asdict(row) for row in found if row.side == side],
                "text": written(form, found, cluster=clusters[side], side=side),
            }
            for side in SIDES
        ],
    }

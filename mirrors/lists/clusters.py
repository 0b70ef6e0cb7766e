"""Lists of clusters: all clusters, and the results of a connection test."""

from __future__ import annotations

import dataclasses

from mirrors.domain.specs import ClusterSpec
from mirrors.lists.columns import Column, ListSpec, in_rest
from mirrors.models.clusters import SecurityProtocol

SETTINGS = tuple(field.name for field in dataclasses.fields(ClusterSpec))
_SHOWN = ("alias", "security_protocol")

CLUSTERS = ListSpec(
    "clusters",
    columns=(
        Column("alias", "Alias", ("alias",)),
        Column("seen", "State", ("reachable", "alias"), field=None),
        Column("brokers", "Brokers", ("brokers",), number=True),
        Column("security_protocol", "Security", ("security_protocol", "sasl_mechanism")),
        Column("out_count", "Flows out", ("out_count",), number=True, field=None),
        Column("in_count", "Flows in", ("in_count",), number=True, field=None),
        Column("reached_at", "Last contact", ("reached_at",)),
        Column("reason", "Reason"),
        *in_rest(*(name for name in SETTINGS if name not in _SHOWN)),
        *in_rest("cluster_id", "reachable", "checked_at", "warnings", "created_at", "updated_at"),
    ),
    search=("alias", "bootstrap_servers", "cluster_id"),
    default="alias",
    filters={"security_protocol": tuple(SecurityProtocol.values)},
)
CONNECTION_TEST = ListSpec(
    "connection test",
    columns=(Column("asked", "Question"), Column("answer", "Answer"), Column("words", "Details")),
)

"""What the data source asks the control plane: the flow, its clusters, and rows of its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from mirrors.domain.specs import ClusterSpec
from mirrors.domain.transforms.rules import TRANSFORMS, parse_rules, routes_of
from mirrors.rest_client import RestClient
from spark_runner.datasource.options import Options

_CLUSTER_FIELDS = tuple(field.name for field in dataclasses.fields(ClusterSpec))


@dataclasses.dataclass(frozen=True)
class FlowView:
    """A flow as the API shows it; secrets of the clusters are references, resolved where used."""

    name: str
    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    # Source topic -> topics on the target, of topics that are replicated: that of the replication
    # policy first, then the routes of a rule.
    remote_topics: dict[str, tuple[str, ...]]
    partitions: tuple[tuple[str, int], ...]


class Service:
    """Raises RestError."""

    def __init__(self, options: Options) -> None:
        self._client = RestClient(options.url, options.token, program="understudy-spark")
        self._flow = f"flows/{quote(options.flow, safe='')}/"

    def flow(self) -> FlowView:
        row = self._client.get(self._flow)
        partitions = list(self._client.rows(f"{self._flow}partitions/"))
        rules = parse_rules(row["properties"].get(TRANSFORMS, ""))
        return FlowView(
            name=row["name"],
            source=self._cluster(row["source"]),
            target=self._cluster(row["target"]),
            properties=row["properties"],
            remote_topics={
                each["topic"]: (each["remote_topic"], *routes_of(each["topic"], rules))
                for each in partitions
                if each["remote_topic"]
            },
            partitions=tuple(sorted((each["topic"], each["partition"]) for each in partitions)),
        )

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Rows of `topics`, `partitions`, `groups` or `gaps`."""
        return self._client.rows(f"{self._flow}{table}/")

    def _cluster(self, alias: str) -> ClusterSpec:
        row = self._client.get(f"clusters/{quote(alias, safe='')}/")
        return ClusterSpec(**{name: row[name] for name in _CLUSTER_FIELDS})

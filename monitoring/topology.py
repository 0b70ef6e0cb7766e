"""The clusters and flows of the topology with their figures, for the page and the REST API."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from mirrors.models import Cluster, Flow
from mirrors.models.flow_queries import figures_as_of
from mirrors.models.flows import DesiredState
from mirrors.views.page import mark_cluster, mark_flow
from monitoring.domain.topology import reaches
from monitoring.history import samples


@dataclasses.dataclass(frozen=True)
class FlowEdge:
    """A flow as an edge from its source to its target cluster."""

    pk: int
    source: str
    target: str
    desired_state: str
    observed_state: str
    reason: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target

    def matches(self, chosen: dict[str, str], state: str, search: str) -> bool:
        """The same filter that the list below the picture applies in the database."""
        text = f"{self.source}->{self.target}\n{self.reason}".lower()
        return (
            chosen["cluster"] in {"", *self.ends}
            and chosen["flow"] in {"", str(self.pk)}
            and state in {"", self.observed_state}
            and search.lower() in text
        )


@dataclasses.dataclass(frozen=True)
class Topology:
    """All clusters and all flows between them."""

    clusters: list[Cluster]
    flows: list[FlowEdge]

    @classmethod
    def now(cls) -> Topology:
        fields = ("pk", "source__alias", "target__alias", "desired_state", "observed_state")
        rows = Flow.objects.order_by("source__alias", "target__alias")
        flows = [FlowEdge(*row) for row in rows.values_list(*fields, "reason")]
        return cls([mark_cluster(cluster) for cluster in Cluster.objects.all()], flows)

    def hops(self, clusters: Sequence[Cluster]) -> dict[str, dict[str, int]]:
        """The clusters that records of these clusters reach over flows that are not stopped."""
        edges = [flow.ends for flow in self.flows if flow.desired_state != DesiredState.STOPPED]
        return reaches(edges, [cluster.alias for cluster in clusters])


def figures_setter(now: datetime) -> Callable[[Any], Any]:
    """A function that sets a flow's shown state, its rates and the age of its figures."""
    rates = samples.rates_now(now=now)

    def set_figures(flow: Any) -> Any:
        flow.records_per_second, flow.bytes_per_second = rates.get(flow.pk, (None, None))
        flow = mark_flow(flow, now)
        # Of the figures beside it, not of the runner's report.
        flow.as_of = figures_as_of(flow)
        return flow

    return set_figures

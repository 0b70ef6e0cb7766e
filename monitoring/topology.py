"""The clusters and flows of the topology with their figures, for the page and the REST API."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.core.cache import cache
from django.db import Error, OperationalError, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from psycopg.errors import QueryCanceled

from mirrors.models import Cluster, Flow, GroupSummary
from mirrors.models.access.grants import sees_everything
from mirrors.models.flow_queries import figures_as_of
from mirrors.models.flows import DesiredState
from mirrors.views.page import mark_cluster, mark_flow
from monitoring.domain.topology import reaches
from monitoring.history import samples

log = logging.getLogger(__name__)

_GROUP_COUNTS, _COUNTED_FOR_S = "topology-groups-by-cluster", 60
_COUNTING = "topology-groups-are-counted"
# Two statements count. A page waits this long for each of them, and is shown without counts.
_PAGE_WAITS_MS = 200
_COUNTS_FOR_S = 3 * _COUNTED_FOR_S


@dataclasses.dataclass(frozen=True)
class FlowEdge:
    """A flow as an edge from its source to its target cluster."""

    pk: int
    source: str
    target: str
    desired_state: str
    observed_state: str
    reason: str
    topics: int = 0
    copied: int = 0

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
class ClusterContent:
    """Number of topics and consumer groups; None if no flow has seen any, or if unknown."""

    topics: int | None = None
    groups: int | None = None


def group_counts() -> dict[int, int]:
    """Consumer groups by cluster: on a source all that its flows saw, else those with an offset.

    Counting reads all groups, so the counts are at most a minute old. While it takes long, they
    are unknown: empty, and the next pages have them. A person with grants counts what they see.
    """
    whole = sees_everything()
    known: dict[int, int] | None = cache.get(_GROUP_COUNTS) if whole else None
    if known is not None:
        return known
    try:
        with _at_most(_PAGE_WAITS_MS):
            return _counted_now() if whole else _count_groups()
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        if whole and cache.add(_COUNTING, True, _COUNTS_FOR_S):
            threading.Thread(target=_count_for_later, name="count-groups", daemon=True).start()
        return {}


@contextlib.contextmanager
def _at_most(milliseconds: int) -> Iterator[None]:
    """Limit each statement, where one can be; OperationalError because of QueryCanceled after
    that."""
    if connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        (before,) = cursor.fetchone()
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{milliseconds}ms"])
        yield
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


def _counted_now() -> dict[int, int]:
    found = _count_groups()
    cache.set(_GROUP_COUNTS, found, _COUNTED_FOR_S)
    return found


def _count_for_later() -> None:
    try:
        with _at_most(_COUNTED_FOR_S * 1000):
            _counted_now()
    except Error as error:
        log.warning("The groups of clusters were not counted: %s", error)
    finally:
        cache.delete(_COUNTING)
        connection.close()


def _count_groups() -> dict[int, int]:
    rows = GroupSummary.objects.order_by()
    on_targets = _distinct(rows.filter(on_target__gt=0).values("flow__target", "group"))
    return on_targets | _distinct(rows.values("flow__source", "group"))


def _distinct(pairs: QuerySet[Any, Any]) -> dict[int, int]:
    """Groups by cluster. PostgreSQL finds equal pairs by hash; COUNT(DISTINCT) sorts all names."""
    select, values = pairs.distinct().query.get_compiler(connection=connection).as_sql()
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH pairs(cluster, name) AS ({select})"  # noqa: S608 - a query of the ORM
            " SELECT cluster, COUNT(*) FROM pairs GROUP BY cluster",
            values,
        )
        return dict(cursor.fetchall())


@dataclasses.dataclass(frozen=True)
class Topology:
    """All clusters and all flows between them."""

    clusters: list[Cluster]
    flows: list[FlowEdge]

    @classmethod
    def now(cls) -> Topology:
        fields = ("pk", "source__alias", "target__alias", "desired_state", "observed_state")
        copied = Coalesce(F("account__topics_copied"), 0)
        others = Coalesce(F("account__topics_left_out") + F("account__topics_blocked"), 0)
        rows = Flow.objects.order_by("source__alias", "target__alias")
        values = rows.values_list(*fields, "reason", copied + others, copied)
        clusters = [mark_cluster(cluster) for cluster in Cluster.objects.all()]
        return cls(clusters, [FlowEdge(*row) for row in values])

    @property
    def sources(self) -> list[str]:
        """Source clusters, that of the oldest flow first."""
        return list(dict.fromkeys(one.source for one in sorted(self.flows, key=lambda f: f.pk)))

    def content(self) -> dict[str, ClusterContent]:
        """Topics and groups of each cluster, as far as its flows see them.

        A source has all topics that a flow lists; a cluster that is only a target has the remote
        topics of its flows.
        """
        seen: dict[str, int] = {}
        copies: Counter[str] = Counter()
        for flow in self.flows:
            seen[flow.source] = max(flow.topics, seen.get(flow.source, 0))
            copies[flow.target] += flow.copied
        groups = group_counts()
        return {
            one.alias: ClusterContent(
                topics=seen.get(one.alias, copies.get(one.alias)), groups=groups.get(one.pk)
            )
            for one in self.clusters
        }

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

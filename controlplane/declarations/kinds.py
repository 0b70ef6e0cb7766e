"""The kinds of documents: the collection of the REST API that each belongs to, and its fields."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from mirrors.api.base import id_of_flow
from mirrors.api.clusters import ClusterViewSet
from mirrors.api.drills.readiness import ObjectivesViewSet
from mirrors.api.drills.runs import DrillViewSet
from mirrors.api.failover.hooks import HookViewSet
from mirrors.api.flows.flow import FlowViewSet
from mirrors.api.runners import RunnerViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.drills.objectives import Objectives
from mirrors.models import Cluster, Drill, Flow, FlowObjectives, Hook, Runner, has_right
from monitoring.api import ChannelViewSet, RuleViewSet
from monitoring.api.costs import FlowPriceViewSet
from monitoring.models import AlertRule, Channel, TransferPrice

Rows = Sequence[Mapping[str, Any]]
_EMPTY: tuple[Any, ...] = (None, "", [], {})


class BadName(Exception):
    """The name of a document belongs to no row, and none can be made with it; a sentence."""


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Fields of an object that an export does not have for this person, and why."""

    kind: str
    name: str
    fields: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {', '.join(self.fields)}. {self.reason}"


@dataclasses.dataclass(frozen=True)
class Kind:
    """`rows` selects the row with a document's name, `identity` are the fields that a new row
    gets from it, and `name_of` is the name of a row that the API returned. `rows` raises BadName.

    - `is_numbered`: several rows have one name; the second one is called `NAME#2`, by age.
    - `is_part_of_flow`: one of each flow, at an address of the flow and with its name. `rows`
      selects the flow. It is empty until its first change, which a plan shows as its creation.
    """

    name: str
    view: type[GenericViewSet[Any]]
    rows: Callable[[str], QuerySet[Any]]
    identity: Callable[[str], dict[str, str]]
    name_of: Callable[[Mapping[str, Any]], str]
    # What a document may set, in the order of an export.
    fields: tuple[str, ...]
    # The field that is the row's place in an address: `/clusters/{alias}/`.
    lookup: str = "pk"
    # Fields of the API with the id of a flow, for which a document has its name.
    flow_fields: tuple[str, ...] = ()

    # Names and keys of the objects that belong to flows, for kinds that prune deletes.
    of_flows: Callable[[QuerySet[Flow]], list[tuple[str, str]]] | None = None

    # Fields that only admins may read.
    for_admins: tuple[str, ...] = ()
    is_numbered: bool = False
    is_part_of_flow: bool = False
    # By name: fields that an export has also when they are empty, as a new object without them
    # would not have them empty.
    told_empty: Callable[[Rows], Mapping[str, tuple[str, ...]]] = lambda rows: {}

    def find(self, name: str) -> str | None:
        """The row's place in an address, or None. Raises BadName."""
        column = "pk" if self.is_part_of_flow else self.lookup
        key = self.rows(name).values_list(column, flat=True).first()
        return None if key is None else str(key)

    def is_empty(self, row: Mapping[str, Any]) -> bool:
        """Whether the row, as the API returned it, has no value: a part that nobody has set."""
        return all(row.get(field) in _EMPTY for field in self.fields)

    def documents(self, request: Request) -> Iterator[dict[str, Any]]:
        """Each object that the person may read, with the fields that are set."""
        names = {flow.pk: flow.name for flow in Flow.objects.select_related("source", "target")}
        view = self.view(request=request, format_kwarg=None, action="list", kwargs={})
        seen: Counter[str] = Counter()
        rows = view.get_serializer(view.get_queryset(), many=True).data
        told_empty = self.told_empty(rows)
        for row in rows:
            if self.is_part_of_flow and self.is_empty(row):
                continue
            flows = {name: names.get(row[name], row[name]) for name in self.flow_fields}
            found = {**row, **flows}
            name = self.name_of(found)
            seen[name] += 1
            if self.is_numbered and seen[name] > 1:
                name = f"{name}#{seen[name]}"
            spec = {field: found[field] for field in self.fields}
            kept = told_empty.get(name, ())
            set_fields = {
                key: value for key, value in spec.items() if value not in _EMPTY or key in kept
            }
            yield {"kind": self.name, "name": name, "spec": set_fields}

    def left_out(self, request: Request) -> Iterator[LeftOut]:
        """What `documents` has not, since the person may not read it."""
        if self.for_admins and not has_right(request.user, Right.ADMINISTER):
            for document in self.documents(request):
                reason = "Only admins may read them; an export by an admin has them."
                yield LeftOut(self.name, document["name"], self.for_admins, reason)


def order_of(kind: str, name: str) -> tuple[int, int]:
    """Sorts documents so that what others need comes first."""
    _, _, number = name.rpartition("#")
    is_further = KINDS[kind].is_numbered and number.isdecimal()
    return list(KINDS).index(kind), int(number[:9]) if is_further else 1


def needs(kind: str, name: str, spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Kind and name of the documents that this one refers to."""
    found: set[tuple[str, str]] = set()
    if kind == "Flow":
        found = {("Cluster", end) for end in name.split("->")} | {
            ("Runner", str(spec.get("runner")))
        }
    elif kind in ("Drill", "Objectives", "Price"):
        found = {("Flow", name.partition("#")[0])}
    elif kind == "AlertRule":
        channels = spec.get("channels")
        named = channels if isinstance(channels, list) else []
        found = {("Channel", str(each)) for each in named} | {("Flow", str(spec.get("flow")))}
    return found


def _ends(name: str) -> dict[str, str]:
    source, _, target = name.partition("->")
    return {"source": source, "target": target}


def _schedules(name: str) -> QuerySet[Drill]:
    """The schedule of a flow; with `#2` the second one, by age."""
    flow, hash_sign, text = name.partition("#")
    if hash_sign and not re.fullmatch(r"[2-9]|[1-9][0-9]{1,5}", text):
        raise BadName(
            f"#{text} is not the number of a further schedule. The first one is {flow}, the second "
            f"{flow}#2."
        )
    number = int(text or 1)
    found = Drill.objects.filter(flow=id_of_flow(flow)).order_by("pk")
    if number > 1 and (known := found.count()) < number - 1:
        before = flow if number == 2 else f"{flow}#{number - 1}"
        raise BadName(f"{name} needs Drill {before} before it: {flow} has {known} schedules.")
    rows: QuerySet[Drill] = found[number - 1 : number]
    return rows


def _schedules_of(flows: QuerySet[Flow]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for flow in flows:
        keys = Drill.objects.filter(flow=flow).order_by("pk").values_list("pk", flat=True)
        for number, key in enumerate(keys, 1):
            found.append((flow.name if number == 1 else f"{flow.name}#{number}", str(key)))
    return found


def _rules_of(flows: QuerySet[Flow]) -> list[tuple[str, str]]:
    rows = AlertRule.objects.filter(flow__in=flows).order_by("pk")
    return [(name, str(key)) for name, key in rows.values_list("name", "pk")]


def _flows(flows: QuerySet[Flow]) -> list[tuple[str, str]]:
    return [(flow.name, str(flow.pk)) for flow in flows]


def _flow_named(name: str) -> QuerySet[Flow]:
    source, arrow, target = name.partition("->")
    if not (source and arrow and target):
        raise BadName(
            f"{name[:210]} is no name of a flow. Write SOURCE->TARGET with the aliases of two "
            "clusters."
        )
    return Flow.objects.filter(pk=id_of_flow(name))


def _flow_of(name: str) -> QuerySet[Flow]:
    """The flow whose part has this name. Raises BadName if there is none."""
    rows = Flow.objects.filter(pk=id_of_flow(name))
    if not rows.exists():
        raise BadName(
            f"There is no flow {name[:210]}. Add a document of kind Flow with this name, or "
            "correct the name: SOURCE->TARGET."
        )
    return rows


def _objectives_of(flows: QuerySet[Flow]) -> list[tuple[str, str]]:
    rows = FlowObjectives.objects.filter(flow__in=flows)
    having = {row.flow_id for row in rows if row.spec != Objectives()}
    return [found for found in _flows(flows) if int(found[1]) in having]


def _prices_of(flows: QuerySet[Flow]) -> list[tuple[str, str]]:
    pairs = set(TransferPrice.objects.values_list("source", "target"))
    return [
        (flow.name, str(flow.pk)) for flow in flows if (flow.source_id, flow.target_id) in pairs
    ]


def _of_labelled_opposites(rows: Rows) -> dict[str, tuple[str, ...]]:
    """A new flow without labels gets those of the other direction."""
    labelled = {(row["target"], row["source"]) for row in rows if row["labels"]}
    return {row["name"]: ("labels",) for row in rows if (row["source"], row["target"]) in labelled}


def _named(name: str) -> dict[str, str]:
    return {"name": name}


def _name(row: Mapping[str, Any]) -> str:
    return str(row["name"])


_ALL = (
    Kind(
        name="Cluster",
        view=ClusterViewSet,
        rows=lambda name: Cluster.objects.filter(alias=name),
        identity=lambda name: {"alias": name},
        name_of=lambda row: str(row["alias"]),
        fields=(
            *("bootstrap_servers", "security_protocol", "sasl_mechanism", "sasl_username"),
            *("sasl_password", "ssl_ca", "ssl_certificate", "ssl_key", "properties"),
        ),
        lookup="alias",
    ),
    Kind(
        name="Runner",
        view=RunnerViewSet,
        rows=lambda name: Runner.objects.filter(name=name),
        identity=_named,
        name_of=_name,
        fields=(
            *("master", "host", "failover_hosts", "slots", "spark_ui", "event_log"),
            *("pool", "auto_balance"),
        ),
        lookup="name",
    ),
    Kind(
        name="Channel",
        view=ChannelViewSet,
        rows=lambda name: Channel.objects.filter(name=name),
        identity=_named,
        name_of=_name,
        fields=("kind", "target", "secret", "headers", "enabled"),
    ),
    Kind(
        name="Hook",
        view=HookViewSet,
        rows=lambda name: Hook.objects.filter(name=name),
        identity=_named,
        name_of=_name,
        fields=("url", "headers", "secret"),
        lookup="name",
        for_admins=("url", "headers", "secret"),
    ),
    Kind(
        name="Flow",
        view=FlowViewSet,
        rows=_flow_named,
        identity=_ends,
        name_of=_name,
        fields=("runner", "labels", "properties", "desired_state"),
        of_flows=_flows,
        told_empty=_of_labelled_opposites,
    ),
    Kind(
        name="Objectives",
        view=ObjectivesViewSet,
        rows=_flow_of,
        identity=lambda name: {},
        name_of=lambda row: str(row["flow"]),
        fields=("rpo_seconds", "rpo_records", "rto_seconds"),
        lookup="flow_id",
        flow_fields=("flow",),
        of_flows=_objectives_of,
        is_part_of_flow=True,
    ),
    Kind(
        name="Price",
        view=FlowPriceViewSet,
        rows=_flow_of,
        identity=lambda name: {},
        name_of=lambda row: str(row["flow"]),
        fields=("per_gb", "currency", "monthly_budget"),
        lookup="flow_id",
        flow_fields=("flow",),
        of_flows=_prices_of,
        is_part_of_flow=True,
    ),
    Kind(
        name="AlertRule",
        view=RuleViewSet,
        rows=lambda name: AlertRule.objects.filter(name=name),
        identity=_named,
        name_of=_name,
        fields=(
            *("kind", "flow", "severity", "threshold", "clear_below", "for_seconds"),
            *("channels", "runbook", "labels", "enabled"),
        ),
        flow_fields=("flow",),
        of_flows=_rules_of,
    ),
    Kind(
        name="Drill",
        view=DrillViewSet,
        rows=_schedules,
        identity=lambda name: {"flow": name.partition("#")[0]},
        name_of=lambda row: str(row["flow"]),
        fields=("schedule", "time_zone", "groups", "enabled"),
        flow_fields=("flow",),
        is_numbered=True,
        of_flows=_schedules_of,
    ),
)
# In the order in which documents are applied: what others refer to comes first.
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
NAMES = tuple(KINDS)

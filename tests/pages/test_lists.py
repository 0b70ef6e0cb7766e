"""Each list is declared once: its page, its files and its REST fields have those columns."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from rest_framework import serializers

import monitoring.lists
from mirrors.api import audit as audit_api
from mirrors.api import (
    clusters,
    gaps,
    groups,
    heartbeats,
)
from mirrors.api import failback as failback_api
from mirrors.api import runners as runners_api
from mirrors.api import sync as sync_api
from mirrors.api.access.grants import GrantSerializer
from mirrors.api.access.tokens import TokenSerializer
from mirrors.api.comparison import conflicts
from mirrors.api.comparison import runs as comparison
from mirrors.api.drills import readiness as readiness_api
from mirrors.api.drills import runs as drill_api
from mirrors.api.failover import left_behind as left_behind_api
from mirrors.api.failover import serializers as failover_api
from mirrors.api.flows import flow as flow_api
from mirrors.api.flows import progress
from mirrors.api.topics import drift as drift_api
from mirrors.api.topics import plans as plan_api
from mirrors.lists import audit, drills, failback, failover, sync, topics
from mirrors.lists import clusters as cluster_lists
from mirrors.lists import comparison as comparison_lists
from mirrors.lists import flows as flow_lists
from mirrors.lists import gaps as gap_lists
from mirrors.lists import groups as group_lists
from mirrors.lists import people as people_lists
from mirrors.lists import runners as runner_lists
from mirrors.lists.columns import SPECS, Column, ListSpec
from mirrors.models import Comparison, Flow
from monitoring.api import alert_rules, alerts, channels, schedules, topology
from monitoring.history.samples import FIELDS
from tests.pages import world
from tests.pages.full import full
from tests.pages.test_every_table import _addresses

SERIALIZERS: list[tuple[ListSpec, Any]] = [
    (flow_lists.FLOWS, flow_api.FlowSerializer),
    (flow_lists.TOPICS, progress.TopicSerializer),
    (flow_lists.PARTITIONS, progress.PartitionSerializer),
    (flow_lists.JOBS, progress.JobSerializer),
    (flow_lists.LANES, progress.LaneSerializer),
    (flow_lists.EXPLANATION, progress.RuleSerializer),
    (group_lists.GROUP_PARTITIONS, groups.GroupSerializer),
    (group_lists.CONSUMER_GROUPS, groups.ConsumerGroupSerializer),
    (group_lists.CLUSTER_GROUPS, groups.ClusterGroupSerializer),
    (gap_lists.GAPS, gaps.GapSerializer),
    (cluster_lists.CLUSTERS, clusters.ClusterSerializer),
    (runner_lists.RUNNERS, runners_api.RunnerSerializer),
    (topics.DRIFT, drift_api.DriftSerializer),
    (topics.PLAN, plan_api.ChangeSerializer),
    (audit.SETTING_CHANGES, audit_api.SettingChangeSerializer),
    (audit.AUDIT, audit_api.ActSerializer),
    (sync.SYNC_TASKS, sync_api.StandingSerializer),
    (sync.HEARTBEATS, heartbeats.HeartbeatSerializer),
    (comparison_lists.COMPARISONS, comparison.ComparisonSerializer),
    (comparison_lists.FINDINGS, comparison.ComparisonFindingSerializer),
    (comparison_lists.PARTITIONS, comparison.ComparisonPartSerializer),
    (comparison_lists.CONFLICT_REPORTS, conflicts.ConflictReportSerializer),
    (comparison_lists.CONFLICT_KEYS, conflicts.ConflictKeySerializer),
    (drills.DRILL_RUNS, drill_api.DrillRunSerializer),
    (drills.DRILL_SCHEDULES, drill_api.DrillSerializer),
    (drills.READINESS, readiness_api.TermSerializer),
    (failover.FAILOVERS, failover_api.FailoverBriefSerializer),
    (failover.STEPS, failover_api.FailoverStepSerializer),
    (failover.LEFT_BEHIND, left_behind_api.LeftBehindSerializer),
    (failback.FAILBACKS, failback_api.FailbackSerializer),
    (failback.DIVERGENCE, failback_api.DivergenceSerializer),
    (failback.ORPHANS, failback_api.OrphanSerializer),
    (monitoring.lists.ALERTS, alerts.AlertSerializer),
    (monitoring.lists.RULES, alert_rules.RuleSerializer),
    (monitoring.lists.CHANNELS, channels.ChannelSerializer),
    (monitoring.lists.SILENCES, alerts.SilenceSerializer),
    (monitoring.lists.DELIVERIES, channels.DeliverySerializer),
    (monitoring.lists.SCHEDULES, schedules.ScheduleSerializer),
    (monitoring.lists.TOPOLOGY_FLOWS, topology.TopologyFlowSerializer),
    (monitoring.lists.TOPOLOGY_CLUSTERS, topology.TopologyClusterSerializer),
    (people_lists.TOKENS, TokenSerializer),
    (people_lists.GRANTS, GrantSerializer),
]
# Tables that are not lists of the product.
NO_LISTS = {"/help/": "a legend", "/certificates/": "a signed document"}


@pytest.mark.parametrize(("spec", "serializer"), SERIALIZERS, ids=lambda one: str(one)[:40])
def test_rest_has_the_fields_of_the_declaration(spec: ListSpec, serializer: Any) -> None:
    made: serializers.Serializer[Any] = serializer()
    assert set(made.fields) == set(spec.fields)
    assert len(spec.fields) == len(set(spec.fields))


class Tables(HTMLParser):
    """Each table of a page: the list that it names, its headings, the cells of its rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[dict[str, Any]] = []
        self._in_head = False
        self._heading: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        if tag == "table":
            self.tables.append({"list": "", "head": None, "rows": [], "links": []})
        elif tag == "thead":
            self._in_head = True
            self.tables[-1] |= {"list": facts.get("data-list", ""), "head": []}
        elif tag == "th" and self._in_head:
            self._heading = ""
        elif tag == "tr" and not self._in_head:
            self.tables[-1]["rows"].append(0)
        elif tag in ("td", "th"):
            self.tables[-1]["rows"][-1] += int(facts.get("colspan") or 1)

    def handle_data(self, data: str) -> None:
        if self._heading is not None:
            self._heading += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._in_head = False
        elif tag == "th" and self._in_head:
            self.tables[-1]["head"].append((self._heading or "").strip())
            self._heading = None


@pytest.fixture
def flow(admin: Client) -> Flow:
    admin.post("/account/tokens/", {"days": "1"})
    flow = full()
    flow.properties["transforms"] = '[{"topics": "orders", "where": "value is not null"}]'
    flow.save(update_fields=["properties"])
    world.transition(flow, who="ann", field="desired_state")
    return flow


def test_each_table_has_the_headings_of_its_declaration_and_a_cell_for_each(
    admin: Client, flow: Flow
) -> None:
    shown, wrong = set(), []
    for path in _addresses(flow):
        if path.startswith(tuple(NO_LISTS)):
            continue
        for table in Tables(admin.get(path).content.decode()).tables:
            if table["head"] is None:
                continue  # a table without headings
            name = table["list"]
            labels = [column.label for column in SPECS[name].headings] if name else []
            if table["head"] != labels or {*table["rows"]} - {len(labels)}:
                wrong.append((path, name, table["head"], table["rows"]))
            shown.add(name)
    assert wrong == []
    assert {name for name, spec in SPECS.items() if spec.headings} - shown == set()


# The file of each list, as an address.
FILES = {
    "flows": "/flows/?",
    "topics": "/flows/{pk}/topics/?",
    "topics behind": "/flows/{pk}/?",
    "partitions": "/flows/{pk}/partitions/?",
    "lanes": "/flows/{pk}/partitions/?of=lanes&",
    "jobs": "/flows/{pk}/jobs/?",
    "log": "/flows/{pk}/jobs/?of=log&",
    "job transitions": "/flows/{pk}/jobs/{pk}/?",
    "settings": "/flows/{pk}/configuration/?",
    "rules on records": "/flows/{pk}/configuration/?of=transforms&",
    "setting changes": "/flows/{pk}/history/?",
    "explanation": "/flows/{pk}/explain/?topic=orders&",
    "group-partitions": "/flows/{pk}/groups/?",
    "consumer groups": "/groups/?",
    "cluster groups": "/clusters/primary/groups/?",
    "gaps": "/flows/{pk}/gaps/?",
    "plan": "/flows/{pk}/plan/?",
    "drift": "/flows/{pk}/drift/?",
    "schema subjects": "/flows/{pk}/schemas/?",
    "schema ids": "/flows/{pk}/schema-ids/?",
    "clusters": "/clusters/?",
    "connection test": "/clusters/primary/?of=test&",
    "runners": "/runners/?",
    "runners of a pool": "/runners/?of=pools&",
    "events of a flow": "/flows/{pk}/events/?",
    "audit": "/audit/?",
    "recent transitions": "/?of=changes&",
    "sync tasks": "/flows/{pk}/duties/?",
    "heartbeats": "/flows/{pk}/heartbeats/?",
    "comparisons": "/comparisons/?",
    "findings": "/comparisons/{compared}/?",
    "aspects": "/comparisons/{compared}/?of=aspects&",
    "compared partitions": "/comparisons/{compared}/partitions/?",
    "conflicting keys": "/flows/{pk}/conflicts/?",
    "conflict reports": "/flows/{pk}/conflicts/?of=reports&",
    "drill runs": "/drills/?",
    "drill runs of a flow": "/flows/{pk}/readiness/?of=drills&",
    "drill schedules": "/drills/schedules/?",
    "readiness": "/flows/{pk}/readiness/?",
    "failovers": "/failovers/?",
    "steps": "/failovers/{pk}/?of=steps&",
    "simulated groups": "/failovers/{pk}/?",
    "preconditions": "/failovers/{pk}/?of=findings&",
    "partitions at risk": "/failovers/{pk}/?of=lossy&",
    "clients": "/failovers/{pk}/?of=clients&",
    "reset groups": "/failovers/{next}/?of=places&",
    "failbacks": "/flows/{pk}/failback/?of=runs&",
    "divergence": "/flows/{pk}/failback/?",
    "orphans": "/failbacks/{pk}/?",
    "orphan records": "/failbacks/{pk}/orphans/{pk}/?",
    "failback groups": "/failbacks/{pk}/?of=groups&",
    "starts": "/failbacks/{pk}/?of=starts&",
    "switchovers": "/failbacks/{pk}/?of=switches&",
    "left behind": "/flows/{pk}/left-behind/?",
    "alerts": "/alerts/?",
    "alerts of a flow": "/flows/{pk}/alerts/?",
    "alert rules": "/alerts/rules/?",
    "alert rules of a flow": "/flows/{pk}/alerts/?of=rules&",
    "channels": "/alerts/rules/?of=channels&",
    "silences": "/alerts/rules/?of=silences&",
    "deliveries": "/alerts/rules/?of=dead&",
    "schedules": "/schedules/?",
    "next runs": "/schedules/?of=coming&",
    "last runs": "/schedules/?of=runs&",
    "topology flows": "/topology/?",
    "topology clusters": "/topology/?of=clusters&",
    "samples": "/flows/{pk}/charts/?",
    "previewed topics": "/add/flow/?preview={pk}&of=topics&",
    "previewed records": "/flows/{pk}/rules/?preview={pk}&of=records&",
    "previewed paths": "/flows/{pk}/rules/?preview={pk}&of=paths&",
    "configs of a topic": "/flows/{pk}/topics/orders/?of=configs&",
    "costs": "/costs/?",
    "costs of topics": "/flows/{pk}/cost/?of=topics&",
    "compression of topics": "/flows/{pk}/cost/?of=samples&",
    "groups of a topic": "/flows/{pk}/topics/orders/?of=groups&",
    "gaps of a topic": "/flows/{pk}/topics/orders/?of=gaps&",
    "manual changes of a topic": "/flows/{pk}/topics/orders/?of=changes&",
    "flows by trouble": "/?",
    "topics furthest behind": "/?of=topics&",
    "groups furthest behind": "/?of=groups&",
    "component health": "/?of=whose&",
    "rpo curve": "/?of=curve&",
    "tokens": "/account/tokens/?",
    "people": "/people/?",
    "grants": "/people/grants/?",
    "rule waivers": "/approvals/?of=waivers&",
    "runs to approve": "/approvals/?",
    "search": "/search/?q=prim&",
}


def test_each_file_has_the_columns_of_its_declaration(admin: Client, flow: Flow) -> None:
    assert set(FILES) == set(SPECS)
    compared = Comparison.objects.get().pk
    for name, path in FILES.items():
        address = path.format(pk=flow.pk, next=flow.pk + 1, compared=compared)
        keys = [column.key for column in SPECS[name].file_columns]
        lines = admin.get(f"{address}as=csv").getvalue().decode().splitlines()
        assert lines[0].split(",") == keys, (name, address)
        if name == "orphan records":
            continue  # JSON lines with the record's bytes
        rows = json.loads(admin.get(f"{address}as=json").getvalue())
        assert all(list(row) == keys for row in rows), name


def test_samples_of_the_history_are_the_columns_of_its_file() -> None:
    assert tuple(column.key for column in monitoring.lists.SAMPLES.file_columns) == FIELDS


def test_a_list_is_declared_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        ListSpec("flows", columns=(Column("key"),))
    assert SPECS["flows"] is flow_lists.FLOWS

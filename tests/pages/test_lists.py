"""Each list is declared once: its REST fields are those columns."""

from __future__ import annotations

from typing import Any

import pytest
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
from monitoring.api import alert_rules, alerts, channels, schedules, topology
from monitoring.history.samples import FIELDS

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


@pytest.mark.parametrize(("spec", "serializer"), SERIALIZERS, ids=lambda one: str(one)[:40])
def test_rest_has_the_fields_of_the_declaration(spec: ListSpec, serializer: Any) -> None:
    made: serializers.Serializer[Any] = serializer()
    assert set(made.fields) == set(spec.fields)
    assert len(spec.fields) == len(set(spec.fields))


def test_samples_of_the_history_are_the_columns_of_its_file() -> None:
    assert tuple(column.key for column in monitoring.lists.SAMPLES.file_columns) == FIELDS


def test_a_list_is_declared_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        ListSpec("flows", columns=(Column("key"),))
    assert SPECS["flows"] is flow_lists.FLOWS

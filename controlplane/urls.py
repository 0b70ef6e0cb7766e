"""Every address of the control plane."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.routers import SimpleRouter

from controlplane import api, docs, health
from mirrors.api import (
    certificates,
    clusters,
    comparisons,
    drift,
    drills,
    duties,
    failbacks,
    failovers,
    flow_rows,
    flow_templates,
    flows,
    gaps,
    groups,
    logs,
    offsets,
    plans,
    readiness,
    runners,
    tokens,
)
from mirrors.api.cluster_groups import ClusterGroupViewSet
from mirrors.api.failover_scripts import FailoverScriptViewSet
from mirrors.api.flow_history import AuditOfFlowViewSet, AuditViewSet, SettingChangeViewSet
from mirrors.api.imports import ExportViewSet, ImportViewSet
from mirrors.api.left_behind import LeftBehindViewSet
from mirrors.api.takeovers import TakeoverViewSet
from monitoring import api as alerts
from monitoring.views.metrics import Metrics
from monitoring.views.schedules_rest import ScheduleViewSet
from monitoring.views.topology_rest import Topology


class Router(SimpleRouter):
    """Addresses work with and without the slash at their end, POST included."""

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"


router = Router()
router.register("clusters", clusters.ClusterViewSet)
of_cluster = r"clusters/(?P<alias>[A-Za-z0-9._-]{1,100})"
router.register(rf"{of_cluster}/groups", ClusterGroupViewSet, basename="cluster-groups")
router.register("tests", clusters.ClusterTestViewSet)
router.register("runners", runners.RunnerViewSet)
router.register("flows", flows.FlowViewSet)
router.register("failovers", failovers.FailoverViewSet)
router.register(
    r"failovers/(?P<run_id>\d{1,18})/script", FailoverScriptViewSet, basename="failover-script"
)
router.register("comparisons", comparisons.ComparisonViewSet)
router.register("drills", drills.DrillViewSet)
router.register("drill-runs", drills.DrillRunViewSet)
router.register("certificates", certificates.CertificateViewSet)
router.register("failbacks", failbacks.FailbackViewSet)
router.register(
    r"failbacks/(?P<failback_id>\d{1,18})/orphans", failbacks.OrphanViewSet, basename="orphans"
)
router.register("tokens", tokens.TokenViewSet)
router.register("audit", AuditViewSet, basename="audit")
router.register("templates", flow_templates.TemplateViewSet, basename="templates")
router.register("imports", ImportViewSet, basename="imports")
router.register("exports", ExportViewSet, basename="exports")
router.register(r"flows/(?P<flow_id>\d{1,18})/takeover", TakeoverViewSet, basename="takeover")
router.register("offsets", offsets.OffsetViewSet, basename="offsets")
router.register("schedules", ScheduleViewSet, basename="schedules")
router.register("alerts", alerts.AlertViewSet)
router.register("alert-rules", alerts.RuleViewSet)
router.register("channels", alerts.ChannelViewSet)
router.register("silences", alerts.SilenceViewSet)
router.register("deliveries", alerts.DeliveryViewSet)
for name, rows in (
    ("topics", flow_rows.TopicViewSet),
    ("partitions", flow_rows.PartitionViewSet),
    ("groups", groups.GroupViewSet),
    ("gaps", gaps.GapViewSet),
    ("jobs", flow_rows.JobViewSet),
    ("log", logs.FlowLogViewSet),
    ("transitions", flow_rows.TransitionViewSet),
    ("history", SettingChangeViewSet),
    ("audit", AuditOfFlowViewSet),
    ("duties", duties.DutyViewSet),
    ("heartbeat", duties.HeartbeatViewSet),
    ("plan", plans.PlanViewSet),
    ("divergence", failbacks.DivergenceViewSet),
    ("outlook", alerts.OutlookViewSet),
    ("readiness", readiness.ReadinessViewSet),
    ("drift", drift.DriftViewSet),
    ("left-behind", LeftBehindViewSet),
):
    router.register(rf"flows/(?P<flow_id>\d{{1,18}})/{name}", rows, basename=f"flow-{name}")
for name, found in (
    ("partitions", comparisons.ComparisonPartViewSet),
    ("findings", comparisons.ComparisonFindingViewSet),
):
    of_one = rf"comparisons/(?P<comparison_id>\d{{1,18}})/{name}"
    router.register(of_one, found, basename=f"comparison-{name}")

urlpatterns = [
    re_path(r"^api/v1/schema/?$", SpectacularJSONAPIView.as_view(), name="schema"),
    re_path(r"^api/v1/docs/?$", docs.docs, name="api-docs"),
    re_path(r"^api/v1/topology/?$", Topology.as_view(), name="topology-rest"),
    re_path(
        r"^api/v1/flows/(?P<flow_id>\d{1,18})/objectives/?$",
        readiness.ObjectivesViewSet.as_view({"get": "list", "patch": "partial_update"}),
        name="flow-objectives-rest",
    ),
    path("api/v1/", include(router.urls)),
    re_path(r"^api/", api.nowhere),
    path("admin/", admin.site.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("", include("controlplane.pages.urls")),
    path("", include("mirrors.urls")),
    path("", include("monitoring.urls")),
]

handler400 = api.bad_request
handler403 = api.permission_denied
handler404 = api.not_found
handler500 = api.server_error

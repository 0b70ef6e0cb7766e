"""URLs of the control plane."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.routers import SimpleRouter

from controlplane import health
from controlplane.api import docs, errors
from controlplane.api.declarations import ApplyViewSet
from mirrors.api import (
    clusters,
    failback,
    gaps,
    groups,
    heartbeats,
    offsets,
    runners,
    schemas,
    sync,
)
from mirrors.api.access import people, tokens
from mirrors.api.access.approvals import WaiverViewSet
from mirrors.api.access.grants import GrantViewSet
from mirrors.api.audit import AuditOfFlowViewSet, AuditViewSet, SettingChangeViewSet
from mirrors.api.comparison import conflicts
from mirrors.api.comparison import runs as comparison
from mirrors.api.drills import certificates, readiness, runs
from mirrors.api.failover import runs as failovers
from mirrors.api.failover.hooks import HookViewSet
from mirrors.api.failover.left_behind import LeftBehindViewSet
from mirrors.api.failover.runs import FailoverScriptViewSet
from mirrors.api.flows import flow, progress
from mirrors.api.groups import ClusterGroupViewSet, ConsumerGroupViewSet
from mirrors.api.migration import flow_templates
from mirrors.api.migration.import_export import ExportViewSet, ImportViewSet
from mirrors.api.migration.takeover import TakeoverViewSet
from mirrors.api.topics import drift, plans, positions
from mirrors.api.topics.previews import TopicPreviewViewSet
from mirrors.api.transforms import RulePreviewViewSet
from monitoring import api as alerts
from monitoring.api import topic_history
from monitoring.api.costs import (
    CostViewSet,
    FlowCompressionViewSet,
    FlowCostViewSet,
    FlowPriceViewSet,
)
from monitoring.api.schedules import ScheduleViewSet
from monitoring.api.topology import TopologyView
from monitoring.views.prometheus import Metrics


class Router(SimpleRouter):
    """Paths work with and without a trailing slash, also for POST."""

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"


# A flow by its id or its name; `FlowNameMiddleware` replaces the name by the id.
FLOW = r"\d{1,18}|[A-Za-z0-9._-]{1,100}->[A-Za-z0-9._-]{1,100}"
router = Router()
router.register("clusters", clusters.ClusterViewSet)
of_cluster = r"clusters/(?P<alias>[A-Za-z0-9._-]{1,100})"
router.register(rf"{of_cluster}/groups", ClusterGroupViewSet, basename="cluster-groups")
router.register("consumer-groups", ConsumerGroupViewSet, basename="consumer-groups")
router.register("tests", clusters.ClusterTestViewSet)
router.register("topic-previews", TopicPreviewViewSet)
router.register("runners", runners.RunnerViewSet)
router.register("hosts", runners.HostViewSet)
router.register("runner-pools", runners.RunnerPoolViewSet, basename="runner-pools")
router.register("flows", flow.FlowViewSet)
router.register("hooks", HookViewSet)
router.register("failovers", failovers.FailoverViewSet)
router.register(
    r"failovers/(?P<run_id>\d{1,18})/script", FailoverScriptViewSet, basename="failover-script"
)
router.register("comparisons", comparison.ComparisonViewSet)
router.register("conflicts", conflicts.ConflictReportViewSet)
router.register(
    r"conflicts/(?P<report_id>\d{1,18})/keys",
    conflicts.ConflictKeyViewSet,
    basename="conflict-keys",
)
router.register("drills", runs.DrillViewSet)
router.register("drill-runs", runs.DrillRunViewSet)
router.register("certificates", certificates.CertificateViewSet)
router.register("failbacks", failback.FailbackViewSet)
router.register(
    r"failbacks/(?P<failback_id>\d{1,18})/orphans", failback.OrphanViewSet, basename="orphans"
)
router.register("tokens", tokens.TokenViewSet)
router.register("people", people.PersonViewSet, basename="people")
router.register("grants", GrantViewSet, basename="grants")
router.register(
    r"people/(?P<user_id>\d{1,18})/tokens", people.TokenOfPersonViewSet, basename="person-tokens"
)
router.register("audit", AuditViewSet, basename="audit")
router.register("templates", flow_templates.TemplateViewSet, basename="templates")
router.register("imports", ImportViewSet, basename="imports")
router.register("apply", ApplyViewSet, basename="apply")
router.register("exports", ExportViewSet, basename="exports")
router.register(rf"flows/(?P<flow_id>{FLOW})/takeover", TakeoverViewSet, basename="takeover")
router.register("offsets", offsets.OffsetViewSet, basename="offsets")
router.register("costs", CostViewSet, basename="costs")
router.register("schedules", ScheduleViewSet, basename="schedules")
router.register("alerts", alerts.AlertViewSet)
router.register("alert-rules", alerts.RuleViewSet)
router.register("channels", alerts.ChannelViewSet)
router.register("silences", alerts.SilenceViewSet)
router.register("deliveries", alerts.DeliveryViewSet)
for name, rows in (
    ("topics", progress.TopicViewSet),
    ("topic-samples", topic_history.TopicSampleViewSet),
    ("partition-samples", topic_history.PartitionSampleViewSet),
    ("partitions", progress.PartitionViewSet),
    ("groups", groups.GroupViewSet),
    ("gaps", gaps.GapViewSet),
    ("jobs", progress.JobViewSet),
    ("log", runners.FlowLogViewSet),
    ("transitions", progress.TransitionViewSet),
    ("history", SettingChangeViewSet),
    ("audit", AuditOfFlowViewSet),
    ("duties", sync.DutyViewSet),
    ("heartbeat", heartbeats.HeartbeatViewSet),
    ("plan", plans.PlanViewSet),
    ("positions", positions.PositionViewSet),
    ("divergence", failback.DivergenceViewSet),
    ("outlook", alerts.OutlookViewSet),
    ("readiness", readiness.ReadinessViewSet),
    ("drift", drift.DriftViewSet),
    ("schemas/subjects", schemas.SchemaSubjectViewSet),
    ("schemas/ids", schemas.SchemaIdViewSet),
    ("schemas", schemas.SchemaSyncViewSet),
    ("left-behind", LeftBehindViewSet),
    ("waivers", WaiverViewSet),
    ("cost", FlowCostViewSet),
    ("cost/compression", FlowCompressionViewSet),
    ("rules/preview", RulePreviewViewSet),
):
    router.register(rf"flows/(?P<flow_id>{FLOW})/{name}", rows, basename=f"flow-{name}")
for name, found in (
    ("partitions", comparison.ComparisonPartViewSet),
    ("findings", comparison.ComparisonFindingViewSet),
):
    of_one = rf"comparisons/(?P<comparison_id>\d{{1,18}})/{name}"
    router.register(of_one, found, basename=f"comparison-{name}")

urlpatterns = [
    re_path(
        r"^api/v1/schema/?$",
        SpectacularJSONAPIView.as_view(generator_class=docs.OneDocument),
        name="schema",
    ),
    re_path(r"^api/v1/docs/?$", docs.docs, name="api-docs"),
    re_path(r"^api/v1/topology/?$", TopologyView.as_view(), name="topology-rest"),
    *(
        re_path(
            rf"^api/v1/flows/(?P<flow_id>{FLOW})/{name}/?$",
            part.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
            name=f"flow-{name}-rest",
        )
        for name, part in (
            ("objectives", readiness.ObjectivesViewSet),
            ("price", FlowPriceViewSet),
        )
    ),
    path("api/v1/", include(router.urls)),
    re_path(r"^api/", errors.unknown_path),
    path("admin/", admin.site.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("", include("controlplane.pages.urls")),
    path("", include("mirrors.urls")),
    path("", include("monitoring.urls")),
]

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.not_found
handler500 = errors.server_error

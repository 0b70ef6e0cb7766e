"""Addresses of the pages of flows, clusters and runners."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from mirrors.domain.failover.runbook.steps import KINDS
from mirrors.views import approvals, clusters, runners, transforms
from mirrors.views.audit import show_audit
from mirrors.views.comparison import conflicts
from mirrors.views.comparison import runs as comparison
from mirrors.views.comparison.runs import PARTS as COMPARED
from mirrors.views.drills import certificates, runs, schedules
from mirrors.views.failback import run
from mirrors.views.failback.orphans import show_orphans
from mirrors.views.failover import application, begin, left_behind, runbook, simulation
from mirrors.views.failover.runbook import download_script
from mirrors.views.flows import actions, edit, events, pages, permissions
from mirrors.views.flows.actions import ACTIONS
from mirrors.views.flows.jobs import show_job
from mirrors.views.flows.tabs import PARTS
from mirrors.views.gaps import show_gap
from mirrors.views.groups import list_all, list_groups, show_group
from mirrors.views.migration import flow_templates, import_export, takeover
from mirrors.views.offsets import show_offsets
from mirrors.views.schemas import compare_schemas
from mirrors.views.topics import plans, positions
from mirrors.views.topics.drift import show_drift


class PartConverter(StringConverter):
    """A tab of a flow's page."""

    regex = "|".join(PARTS)


class ActConverter(StringConverter):
    """A verb that a person can do to a flow."""

    regex = "|".join(ACTIONS)


class FileConverter(StringConverter):
    """A form in which a certificate is downloaded."""

    regex = "json|pdf|evidence"


class VerbConverter(StringConverter):
    """What a person can ask of a run."""

    regex = "approve|confirm|pause|resume"


class DecisionConverter(StringConverter):
    """The answer to a request that a second person decides on."""

    regex = "approve|reject"


class ExecutionConverter(StringConverter):
    """A run that changes clients, in contrast to a simulation."""

    regex = "|".join(KINDS)


class ViewConverter(StringConverter):
    """A tab of a comparison's page."""

    regex = "|".join(COMPARED)


register_converter(PartConverter, "part")
register_converter(ViewConverter, "compared")
register_converter(DecisionConverter, "decision")
register_converter(VerbConverter, "verb")
register_converter(ExecutionConverter, "execution")
register_converter(FileConverter, "file")
register_converter(ActConverter, "act")

urlpatterns = [
    path("flows/", pages.list_flows, name="flows"),
    path("add/flow/", edit.add_flow, name="flow-add"),
    path("add/template/", flow_templates.add_from_template, name="flow-template"),
    path("imports/", import_export.import_file, name="import"),
    path("exports/mm2.properties", import_export.export_file, name="export-mm2"),
    path("flows/<int:pk>/", pages.show_flow, name="flow"),
    path("flows/<int:pk>/edit/", edit.edit_flow, name="flow-edit"),
    path("flows/<int:pk>/explain/", pages.explain, name="flow-explain"),
    path("flows/<int:pk>/conflicts/", conflicts.show_conflicts, name="flow-conflicts"),
    path("flows/<int:pk>/rules/", transforms.show_preview, name="flow-rules"),
    path("flows/<int:pk>/permissions/", permissions.show_permissions, name="flow-permissions"),
    path("flows/<int:pk>/positions/", positions.show_positions, name="flow-positions"),
    path(
        "flows/<int:pk>/positions/<int:change>/apply/",
        positions.apply_positions,
        name="flow-positions-apply",
    ),
    path("flows/<int:pk>/takeover/", takeover.show_takeover, name="flow-takeover"),
    path("flows/<int:pk>/takeover/check/", takeover.check_takeover, name="flow-takeover-check"),
    path("flows/<int:pk>/plan/look/", plans.look_at_plan, name="flow-plan-look"),
    path("flows/<int:pk>/plan/apply/", plans.apply_plan, name="flow-plan-apply"),
    path("flows/<int:pk>/plan/follow/", plans.let_acls_follow, name="flow-plan-follow"),
    path("flows/<int:pk>/schemas/compare/", compare_schemas, name="flow-schemas-compare"),
    path("flows/<int:pk>/drift/<int:finding>/", show_drift, name="flow-drift"),
    path("flows/<int:pk>/simulate/", simulation.simulate, name="flow-simulate"),
    path("flows/<int:pk>/drill/", runs.drill_now, name="flow-drill"),
    path("flows/<int:pk>/objectives/", schedules.edit_objectives, name="flow-objectives"),
    path("drills/", runs.list_runs, name="drills"),
    path("drills/evidence.json", certificates.download_evidence, name="evidence"),
    path("drills/schedules/", runs.list_schedules, name="drill-schedules"),
    path("drills/runs/<int:pk>/", runs.show_run, name="drill-run"),
    path("drills/<int:pk>/edit/", schedules.edit_drill, name="drill-edit"),
    path("drills/<int:pk>/delete/", schedules.delete_drill, name="drill-delete"),
    path("add/drill/", schedules.add_drill, name="drill-add"),
    path("certificates/<str:number>/", certificates.show_certificate, name="certificate"),
    path(
        "certificates/<str:number>/<file:form>",
        certificates.download_certificate,
        name="certificate-file",
    ),
    path("verify/", certificates.verify_any, name="verify"),
    path("verify/<str:number>/", certificates.verify_one, name="verify-one"),
    path("flows/<int:pk>/failover/", begin.begin, name="flow-failover"),
    path(
        "flows/<int:pk>/failover/application/",
        application.choose_application,
        name="flow-application",
    ),
    path(
        "flows/<int:pk>/failover/<execution:execution>/",
        begin.prepare,
        name="flow-failover-prepare",
    ),
    path("failovers/<int:pk>/failback/", application.show_failback, name="application-failback"),
    path("flows/<int:pk>/left-behind/", left_behind.show_left_behind, name="flow-left-behind"),
    path(
        "flows/<int:pk>/left-behind/<int:finding>/withdraw/",
        left_behind.withdraw,
        name="flow-left-behind-withdraw",
    ),
    path(
        "failovers/<int:pk>/failback/create/",
        application.create_reverse,
        name="application-failback-create",
    ),
    path("failovers/<int:pk>/orphans/", application.list_orphans, name="application-orphans"),
    path("flows/<int:pk>/failback/", run.begin_failback, name="flow-failback"),
    path("failbacks/<int:pk>/", run.show_failback, name="failback"),
    path("failbacks/<int:pk>/decide/", run.decide, name="failback-decide"),
    path("failbacks/<int:pk>/groups/", run.groups, name="failback-groups"),
    path("failbacks/<int:pk>/switch/", run.switch, name="failback-switch"),
    path("failbacks/<int:pk>/retry/", run.retry, name="failback-retry"),
    path("failbacks/<int:pk>/close/", run.close, name="failback-close"),
    path("failbacks/<int:pk>/orphans/<int:stretch>/", show_orphans, name="orphans"),
    path("failovers/", simulation.list_runs, name="failovers"),
    path("failovers/<int:pk>/", simulation.show_run, name="failover"),
    path("failovers/<int:pk>/abort/", simulation.abort, name="failover-abort"),
    path("failovers/<int:pk>/script/", download_script, name="failover-script"),
    path("failovers/<int:pk>/<verb:verb>/", runbook.steer, name="failover-steer"),
    path("failovers/<int:pk>/lift/", runbook.lift, name="failover-lift"),
    path("comparisons/", comparison.list_comparisons, name="comparisons"),
    path("add/comparison/", comparison.add_comparison, name="comparison-add"),
    path("comparisons/<int:pk>/", comparison.show_comparison, name="comparison"),
    path("comparisons/<int:pk>/abort/", comparison.abort, name="comparison-abort"),
    path(
        "comparisons/<int:pk>/<compared:part>/",
        comparison.show_comparison,
        name="comparison-part",
    ),
    path("flows/<int:pk>/gaps/<int:gap>/", show_gap, name="flow-gap"),
    path("flows/<int:pk>/offsets/", show_offsets, name="flow-offsets"),
    path("flows/<int:pk>/jobs/<int:job>/", show_job, name="flow-job"),
    path("groups/", list_all, name="consumer-groups"),
    path("flows/<int:pk>/group/", show_group, name="flow-group"),
    path("flows/<int:pk>/events/", events.show_events, name="flow-events"),
    path(
        "flows/<int:pk>/transitions/",
        events.moved_here,
        {"part": "transitions"},
        "flow-transitions",
    ),
    path("flows/<int:pk>/audit/", events.moved_here, {"part": "audit"}, "flow-audit"),
    path("flows/<int:pk>/labels/", edit.set_labels, name="flow-labels"),
    path("flows/<int:pk>/<part:part>/", pages.show_flow, name="flow-part"),
    path("flows/<int:pk>/<act:action>/", actions.act_on_flow, name="flow-act"),
    path("clusters/", clusters.list_clusters, name="clusters"),
    path("add/cluster/", clusters.add_cluster, name="cluster-add"),
    path("clusters/<str:alias>/", clusters.show_cluster, name="cluster"),
    path("clusters/<str:alias>/groups/", list_groups, name="cluster-groups"),
    path("clusters/<str:alias>/edit/", clusters.edit_cluster, name="cluster-edit"),
    path("clusters/<str:alias>/delete/", clusters.delete_cluster, name="cluster-delete"),
    path("clusters/<str:alias>/test/", clusters.test_cluster, name="cluster-test"),
    path("approvals/", approvals.show_approvals, name="approvals"),
    path("approvals/request/", approvals.request_waiver, name="waiver-request"),
    path("approvals/<int:pk>/<decision:decision>/", approvals.decide_waiver, name="waiver-decide"),
    path("audit/", show_audit, name="audit"),
    path("runners/", runners.list_runners, name="runners"),
    path("add/runner/", runners.add_runner, name="runner-add"),
    path("runners/<str:name>/", runners.show_runner, name="runner"),
    path("runner-pools/<str:name>/balance/", runners.balance_pool, name="pool-balance"),
    path("hosts/<str:name>/drain/", runners.drain_host, name="host-drain"),
    path("hosts/<str:name>/end-drain/", runners.end_drain, name="host-end-drain"),
    path("runners/<str:name>/edit/", runners.edit_runner, name="runner-edit"),
    path("runners/<str:name>/move/", runners.move_runner, name="runner-move"),
    path("runners/<str:name>/delete/", runners.delete_runner, name="runner-delete"),
]

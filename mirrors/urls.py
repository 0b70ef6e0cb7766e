"""Addresses of the pages of flows, clusters and runners."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from mirrors.views import (
    actions,
    certificates,
    clusters,
    comparisons,
    drill_forms,
    drills,
    failbacks,
    failover_runs,
    failovers,
    flow_edit,
    flow_templates,
    flows,
    imports,
    left_behind,
    plans,
    runners,
    takeovers,
)
from mirrors.views.actions import ACTS
from mirrors.views.audit import show_audit
from mirrors.views.cluster_groups import list_groups
from mirrors.views.comparison_tables import PARTS as COMPARED
from mirrors.views.drift import show_drift
from mirrors.views.failover_scripts import download_script
from mirrors.views.flow_tables import PARTS
from mirrors.views.gaps import show_gap
from mirrors.views.jobs import show_job
from mirrors.views.offsets import show_offsets
from mirrors.views.orphans import show_orphans


class PartConverter(StringConverter):
    """A tab of a flow's page."""

    regex = "|".join(PARTS)


class ActConverter(StringConverter):
    """A verb that a person can do to a flow."""

    regex = "|".join(ACTS)


class FileConverter(StringConverter):
    """A form in which a certificate is downloaded."""

    regex = "json|pdf|evidence"


class VerbConverter(StringConverter):
    """What a person can ask of a run."""

    regex = "approve|confirm|pause|resume"


class ViewConverter(StringConverter):
    """A tab of a comparison's page."""

    regex = "|".join(COMPARED)


register_converter(PartConverter, "part")
register_converter(ViewConverter, "compared")
register_converter(VerbConverter, "verb")
register_converter(FileConverter, "file")
register_converter(ActConverter, "act")

urlpatterns = [
    path("flows/", flows.list_flows, name="flows"),
    path("add/flow/", flow_edit.add_flow, name="flow-add"),
    path("add/template/", flow_templates.add_from_template, name="flow-template"),
    path("imports/", imports.import_file, name="import"),
    path("exports/mm2.properties", imports.export_file, name="export-mm2"),
    path("flows/<int:pk>/", flows.show_flow, name="flow"),
    path("flows/<int:pk>/edit/", flow_edit.edit_flow, name="flow-edit"),
    path("flows/<int:pk>/explain/", flows.explain, name="flow-explain"),
    path("flows/<int:pk>/takeover/", takeovers.show_takeover, name="flow-takeover"),
    path("flows/<int:pk>/takeover/check/", takeovers.check_takeover, name="flow-takeover-check"),
    path("flows/<int:pk>/plan/look/", plans.look_at_plan, name="flow-plan-look"),
    path("flows/<int:pk>/plan/apply/", plans.apply_plan, name="flow-plan-apply"),
    path("flows/<int:pk>/plan/follow/", plans.let_acls_follow, name="flow-plan-follow"),
    path("flows/<int:pk>/drift/<int:finding>/", show_drift, name="flow-drift"),
    path("flows/<int:pk>/simulate/", failovers.simulate, name="flow-simulate"),
    path("flows/<int:pk>/drill/", drills.drill_now, name="flow-drill"),
    path("flows/<int:pk>/objectives/", drill_forms.edit_objectives, name="flow-objectives"),
    path("drills/", drills.list_runs, name="drills"),
    path("drills/schedules/", drills.list_schedules, name="drill-schedules"),
    path("drills/runs/<int:pk>/", drills.show_run, name="drill-run"),
    path("drills/<int:pk>/edit/", drill_forms.edit_drill, name="drill-edit"),
    path("drills/<int:pk>/delete/", drill_forms.delete_drill, name="drill-delete"),
    path("add/drill/", drill_forms.add_drill, name="drill-add"),
    path("certificates/<str:number>/", certificates.show_certificate, name="certificate"),
    path(
        "certificates/<str:number>/<file:form>",
        certificates.download_certificate,
        name="certificate-file",
    ),
    path("verify/", certificates.verify_any, name="verify"),
    path("verify/<str:number>/", certificates.verify_one, name="verify-one"),
    path("flows/<int:pk>/failover/", failover_runs.begin, name="flow-failover"),
    path("flows/<int:pk>/left-behind/", left_behind.show_left_behind, name="flow-left-behind"),
    path(
        "flows/<int:pk>/left-behind/<int:finding>/withdraw/",
        left_behind.withdraw,
        name="flow-left-behind-withdraw",
    ),
    path("flows/<int:pk>/failback/", failbacks.ask_failback, name="flow-failback"),
    path("failbacks/<int:pk>/", failbacks.show_failback, name="failback"),
    path("failbacks/<int:pk>/decide/", failbacks.decide, name="failback-decide"),
    path("failbacks/<int:pk>/groups/", failbacks.groups, name="failback-groups"),
    path("failbacks/<int:pk>/switch/", failbacks.switch, name="failback-switch"),
    path("failbacks/<int:pk>/retry/", failbacks.retry, name="failback-retry"),
    path("failbacks/<int:pk>/close/", failbacks.close, name="failback-close"),
    path("failbacks/<int:pk>/orphans/<int:stretch>/", show_orphans, name="orphans"),
    path("failovers/", failovers.list_runs, name="failovers"),
    path("failovers/<int:pk>/", failovers.show_run, name="failover"),
    path("failovers/<int:pk>/abort/", failovers.abort, name="failover-abort"),
    path("failovers/<int:pk>/script/", download_script, name="failover-script"),
    path("failovers/<int:pk>/<verb:verb>/", failover_runs.steer, name="failover-steer"),
    path("failovers/<int:pk>/lift/", failover_runs.lift, name="failover-lift"),
    path("comparisons/", comparisons.list_comparisons, name="comparisons"),
    path("add/comparison/", comparisons.add_comparison, name="comparison-add"),
    path("comparisons/<int:pk>/", comparisons.show_comparison, name="comparison"),
    path("comparisons/<int:pk>/abort/", comparisons.abort, name="comparison-abort"),
    path(
        "comparisons/<int:pk>/<compared:part>/",
        comparisons.show_comparison,
        name="comparison-part",
    ),
    path("flows/<int:pk>/gaps/<int:gap>/", show_gap, name="flow-gap"),
    path("flows/<int:pk>/offsets/", show_offsets, name="flow-offsets"),
    path("flows/<int:pk>/jobs/<int:job>/", show_job, name="flow-job"),
    path("flows/<int:pk>/<part:part>/", flows.show_flow, name="flow-part"),
    path("flows/<int:pk>/<act:action>/", actions.act_on_flow, name="flow-act"),
    path("clusters/", clusters.list_clusters, name="clusters"),
    path("add/cluster/", clusters.add_cluster, name="cluster-add"),
    path("clusters/<str:alias>/", clusters.show_cluster, name="cluster"),
    path("clusters/<str:alias>/groups/", list_groups, name="cluster-groups"),
    path("clusters/<str:alias>/edit/", clusters.edit_cluster, name="cluster-edit"),
    path("clusters/<str:alias>/delete/", clusters.delete_cluster, name="cluster-delete"),
    path("clusters/<str:alias>/test/", clusters.test_cluster, name="cluster-test"),
    path("audit/", show_audit, name="audit"),
    path("runners/", runners.list_runners, name="runners"),
    path("add/runner/", runners.add_runner, name="runner-add"),
    path("runners/<str:name>/", runners.show_runner, name="runner"),
    path("runners/<str:name>/edit/", runners.edit_runner, name="runner-edit"),
]

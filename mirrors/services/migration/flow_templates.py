"""Flow templates: a plan of several flows, then exactly those flows, all or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.migration.flow_templates import TemplateKind, TemplatePlan, plan_template
from mirrors.models import Cluster, Flow, Runner
from mirrors.models.flows import DesiredState
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import create_flow


def preview_template(
    *, kind: TemplateKind, clusters: Sequence[Cluster], properties: Mapping[str, str]
) -> TemplatePlan:
    """The flows that it would create, each checked against the others and the existing ones."""
    rows = list(Flow.objects.select_related("source", "target"))
    active = [row.spec for row in rows if row.desired_state != DesiredState.STOPPED]
    return plan_template(
        kind,
        [cluster.spec for cluster in clusters],
        properties,
        active=active,
        taken=[row.name for row in rows],
        ids=dict(Cluster.objects.values_list("alias", "cluster_id")),
    )


def apply_template(
    *,
    kind: TemplateKind,
    clusters: Sequence[Cluster],
    properties: Mapping[str, str],
    digest: str,
    runner: Runner | None = None,
    desired_state: str = DesiredState.STOPPED,
    who: str,
) -> list[Flow]:
    """Create what the preview with this digest showed: all flows, or none."""
    with transaction.atomic():
        plan = preview_template(kind=kind, clusters=clusters, properties=properties)
        if not plan.is_whole:
            wrong = {flow.name: list(flow.problems) for flow in plan.flows if flow.problems}
            raise InvalidSettings(wrong)
        if plan.digest != digest:
            raise Conflict(
                "The settings, or the flows here, changed since the preview, so this template "
                "would create something else. Preview it again, then apply that."
            )
        known = {cluster.alias: cluster for cluster in clusters}
        return [
            create_flow(
                source=known[flow.source],
                target=known[flow.target],
                properties=plan.properties,
                runner=runner,
                desired_state=desired_state,
                who=who,
            )
            for flow in plan.flows
        ]

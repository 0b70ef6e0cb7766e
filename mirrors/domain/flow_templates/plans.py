"""What a template would make of some clusters: its flows, judged together and beside the others."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence

from mirrors.domain.conflicts import check_flow
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flow_templates.routes import TEMPLATES, TemplateKind
from mirrors.domain.keys.judging import validate_properties
from mirrors.domain.specs import ClusterSpec, FlowSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedFlow:
    """One flow with what stands in its way and what one should know before."""

    source: str
    target: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemplatePlan:
    """All flows of a template, made together or not at all; `digest` names exactly this plan."""

    kind: TemplateKind
    properties: dict[str, str]
    flows: tuple[PlannedFlow, ...]

    @property
    def is_whole(self) -> bool:
        return bool(self.flows) and not any(flow.problems for flow in self.flows)

    @property
    def digest(self) -> str:
        facts: list[object] = [self.kind, sorted(self.properties.items())]
        facts += [dataclasses.astuple(flow) for flow in self.flows]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def plan_template(
    kind: TemplateKind,
    clusters: Sequence[ClusterSpec],
    properties: Mapping[str, str],
    *,
    active: Sequence[FlowSpec] = (),
    taken: Sequence[str] = (),
    ids: Mapping[str, str] | None = None,
) -> TemplatePlan:
    """The flows in order; raises InvalidSettings where clusters or settings cannot be at all.

    `active` are the flows that are not at rest, `taken` the names of all there are, `ids` the
    cluster ids as far as they are known.
    """
    aliases = [cluster.alias for cluster in clusters]
    if sentences := TEMPLATES[kind].refusals(aliases):
        raise InvalidSettings({"clusters": sentences})
    if errors := validate_properties(properties):
        raise InvalidSettings(errors)
    known = {cluster.alias: cluster for cluster in clusters}
    specs = [
        FlowSpec.build(source=known[source], target=known[target], properties=properties)
        for source, target in TEMPLATES[kind].edges(aliases)
    ]
    flows = tuple(_judge(spec, [*active, *specs], taken, ids) for spec in specs)
    return TemplatePlan(kind=kind, properties=dict(properties), flows=flows)


def _judge(
    spec: FlowSpec,
    others: Sequence[FlowSpec],
    taken: Sequence[str],
    ids: Mapping[str, str] | None,
) -> PlannedFlow:
    source, target = spec.source.alias, spec.target.alias
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if spec.name in taken:
        words = "exists already. Remove it, or leave its cluster out here."
        problems = (f"A flow {spec.name} {words}",)
    else:
        try:
            warnings = tuple(check_flow(spec, others, ids))
        except InvalidSettings as error:
            problems = tuple(text for texts in error.fields.values() for text in texts)
    return PlannedFlow(source=source, target=target, problems=problems, warnings=warnings)

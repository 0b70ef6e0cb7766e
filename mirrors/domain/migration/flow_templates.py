"""Flow templates: the flows that a template creates, checked for conflicts."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.settings.validation import validate_properties
from mirrors.domain.specs import ClusterSpec, FlowSpec

TemplateKind = Literal["active-passive", "active-active", "hub", "fan-out", "chain"]
KINDS: tuple[TemplateKind, ...] = get_args(TemplateKind)
Edge = tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Template:
    """One template. `first` and `others` name the roles; the first cluster has the first role."""

    kind: TemplateKind
    label: str
    does: str
    first: str
    others: str
    most: int | None = None

    def edges(self, aliases: Sequence[str]) -> list[Edge]:
        """Return source and target of each flow, in the order of the given clusters."""
        first, others = aliases[0], aliases[1:]
        if self.kind == "active-passive":
            return [(first, other) for other in others]
        if self.kind == "active-active":
            return [edge for other in others for edge in ((first, other), (other, first))]
        if self.kind == "hub":
            return [(other, first) for other in others]
        if self.kind == "fan-out":
            return [(first, other) for other in others]
        return list(itertools.pairwise(aliases))

    def refusals(self, aliases: Sequence[str]) -> list[str]:
        """Return why these clusters cannot have these roles; empty if they can."""
        found = []
        if len(aliases) < 2:
            found.append(f"{self.label} needs at least two clusters; {len(aliases)} chosen.")
        if self.most is not None and len(aliases) > self.most:
            found.append(f"{self.label} needs {self.most} clusters, not {len(aliases)}.")
        twice = sorted({alias for alias in aliases if aliases.count(alias) > 1})
        if twice:
            found.append(f"{', '.join(twice)} is selected twice; each cluster has one role.")
        return found


TEMPLATES: dict[TemplateKind, Template] = {
    one.kind: one
    for one in (
        Template(
            kind="active-passive",
            label="Active/passive pair",
            does="One flow: the standby receives all records, so that clients can fail over to it.",
            first="Active",
            others="Standby",
            most=2,
        ),
        Template(
            kind="active-active",
            label="Active/active pair",
            does="Two flows, one in each direction: clients write on both clusters, "
            "and both have all records.",
            first="One side",
            others="Other side",
            most=2,
        ),
        Template(
            kind="hub",
            label="Hub",
            does="A flow from each spoke to the hub, which collects the records of all spokes.",
            first="Hub",
            others="Spokes",
        ),
        Template(
            kind="fan-out",
            label="Fan-out",
            does="A flow from the source to each target: each target has all "
            "records of the source.",
            first="Source",
            others="Targets",
        ),
        Template(
            kind="chain",
            label="Chain",
            does="A flow from each cluster to the next, in the given order.",
            first="First",
            others="Then, in order",
        ),
    )
}


def kind_of(word: str) -> TemplateKind:
    for kind in KINDS:
        if kind == word:
            return kind
    raise InvalidSettings({"kind": [f"It must be one of {', '.join(KINDS)}, not {word[:40]!r}."]})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedFlow:
    """One flow with its blockers and warnings."""

    source: str
    target: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemplatePlan:
    """All flows of a template, created together or not at all. `digest` identifies the plan."""

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
    """Return the flows in order. Raises InvalidSettings for invalid clusters or settings.

    - `active`: the flows that are not stopped.
    - `taken`: the names of all flows.
    - `ids`: the known cluster ids.
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
        words = "already exists. Delete it, or leave its cluster out here."
        problems = (f"A flow {spec.name} {words}",)
    else:
        try:
            warnings = tuple(check_flow(spec, others, ids))
        except InvalidSettings as error:
            problems = tuple(text for texts in error.fields.values() for text in texts)
    return PlannedFlow(source=source, target=target, problems=problems, warnings=warnings)

"""Import and export of flows: a plan that changes nothing, then exactly it in one transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from django.db import transaction

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.migration.export import write_mm2
from mirrors.domain.migration.imports.line_verdicts import KeyVerdict
from mirrors.domain.migration.imports.mm2_precedence import servers
from mirrors.domain.migration.imports.plan import (
    KINDS,
    LONGEST_TEXT,
    FieldKey,
    ImportKind,
    ImportPlan,
    changed_settings,
    plan_import,
)
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.models import Cluster, Flow
from mirrors.models.flows import DesiredState
from mirrors.services.clusters import changed_fields, create_cluster, problems_of
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import create_flow


@dataclasses.dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import created, which existing clusters it uses, and which flows were there."""

    clusters: tuple[str, ...]
    reused: tuple[str, ...]
    flows: tuple[Flow, ...]
    unchanged: tuple[str, ...]


def preview_import(*, kind: ImportKind, text: str, leave_out: bool = False) -> ImportPlan:
    """A verdict for every line, checked against the existing rows. Creates nothing.

    `leave_out`: lines that MirrorMaker 2 ignores do not stop the import.
    """
    rows = Flow.objects.select_related("source", "target")
    active = rows.exclude(desired_state=DesiredState.STOPPED)
    ids = dict(Cluster.objects.values_list("alias", "cluster_id"))
    plan = plan_import(
        kind, text, existing=[flow.spec for flow in active], ids=ids, leave_out=leave_out
    )
    changes = _changes(plan, {flow.name: flow.spec for flow in rows})
    plan = plan.keep([name for name, names in changes.items() if not names])
    return plan.refuse([*_cluster_problems(plan), *_flow_problems(changes)])


def apply_import(
    *, kind: ImportKind, text: str, digest: str, who: str, leave_out: bool = False
) -> Imported:
    """Create what the preview with this digest showed, completely or not. Flows are stopped."""
    with transaction.atomic():
        plan = preview_import(kind=kind, text=text, leave_out=leave_out)
        if plan.refused:
            raise InvalidSettings(_errors(plan.refused))
        if plan.digest != digest:
            raise Conflict(
                "The text, or the clusters and flows here, changed since the preview, so this "
                "import would do something else. Preview it again, then apply that."
            )
        known = {cluster.alias: cluster for cluster in Cluster.objects.all()}
        made = {
            spec.alias: create_cluster(spec=spec, who=who)
            for spec in plan.clusters
            if spec.alias not in known
        }
        clusters = known | made
        flows = [
            create_flow(
                source=clusters[spec.source.alias],
                target=clusters[spec.target.alias],
                properties=spec.properties,
                desired_state=DesiredState.STOPPED,
                who=who,
            )
            for spec in plan.new_flows
        ]
    reused = tuple(spec.alias for spec in plan.clusters if spec.alias in known)
    return Imported(
        clusters=tuple(made), reused=reused, flows=tuple(flows), unchanged=plan.unchanged
    )


def export_flows(*, flows: Sequence[Flow] | None = None) -> str:
    """These flows, or all, as one file for MirrorMaker 2."""
    rows = Flow.objects.select_related("source", "target").order_by("pk")
    chosen = list(rows) if flows is None else list(flows)
    if not chosen:
        raise UnderstudyError("There is no flow to export. Create one first.", code="nothing")
    return write_mm2([flow.spec for flow in chosen])


def text_of(raw: bytes) -> str:
    """A file's bytes as text; a byte that is not UTF-8 is refused with its line."""
    if len(raw) > LONGEST_TEXT:
        raise UnderstudyError(
            f"The file has {len(raw)} bytes; the limit is {LONGEST_TEXT}.", code="too_large"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = raw[: error.start].count(b"\n") + 1
        raise UnderstudyError(
            f"The file is not UTF-8 text: line {number} contains the byte "
            f"0x{raw[error.start]:02X}. Save it as UTF-8, or write such letters as \\uXXXX.",
            code="not_text",
        ) from None


def kind_of(word: str) -> ImportKind:
    for kind in KINDS:
        if kind == word:
            return kind
    raise InvalidSettings({"kind": [f"It must be one of {', '.join(KINDS)}."]})


def _cluster_problems(plan: ImportPlan) -> Iterator[tuple[FieldKey, str]]:
    known = {cluster.alias: cluster for cluster in Cluster.objects.all()}
    for spec in plan.clusters:
        cluster = known.get(spec.alias)
        if cluster is None:
            yield from _refusals(spec)
            continue
        for field in changed_fields(cluster=cluster, spec=spec):
            if field == "bootstrap_servers" and _same_servers(cluster, spec):
                continue
            yield (
                (spec.alias, field),
                f"The cluster {spec.alias} is registered here with another {field}. Change the "
                "cluster or the text, so that both agree.",
            )


def _same_servers(cluster: Cluster, spec: ClusterSpec) -> bool:
    return servers(cluster.bootstrap_servers) == servers(spec.bootstrap_servers)


def _refusals(spec: ClusterSpec) -> Iterator[tuple[FieldKey, str]]:
    """What only this installation refuses; the plan has what the spec itself refuses."""
    judged = spec.validate()
    for field, sentences in problems_of(spec).items():
        for sentence in sentences if field not in judged else ():
            yield (spec.alias, field), sentence


def _changes(plan: ImportPlan, existing: Mapping[str, FlowSpec]) -> dict[str, list[str]]:
    """Each flow of the text that exists -> its settings that would change."""
    return {
        spec.name: changed_settings(existing[spec.name], spec)
        for spec in plan.flows
        if spec.name in existing
    }


def _flow_problems(changes: Mapping[str, list[str]]) -> Iterator[tuple[FieldKey, str]]:
    for name, settings in changes.items():
        if settings:
            yield (
                (name, ""),
                f"The flow {name} exists already, with another {', '.join(settings)}. Change its "
                "settings there, or remove this line.",
            )


def _errors(refused: Sequence[KeyVerdict]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in refused:
        where = "" if line.number is None else f"Line {line.number}: "
        found.setdefault(line.key, []).append(f"{where}{line.reason}")
    return found

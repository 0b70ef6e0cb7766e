"""Create, change and remove flows, and preview the effect of a change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.bandwidth import is_live_edit
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.settings.changes import changes_sentence, initial_changes
from mirrors.domain.settings.references import same_secret
from mirrors.domain.specs import FlowSpec
from mirrors.domain.standby.flow_definition import references_of
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, parse_rules
from mirrors.kafka.security.secret_scopes import Purpose
from mirrors.kafka.security.secrets import check_reference
from mirrors.models import Cluster, Flow, Job, Runner
from mirrors.models.access.grants import FlowLabel
from mirrors.models.audit.transitions import note, record
from mirrors.models.flows import DesiredState, record_edit
from mirrors.services.access.approvals import check_not_loosened, has_own_rule
from mirrors.services.errors import Conflict
from mirrors.services.flows.renames import check_label_topics, check_renamed_topics
from mirrors.services.flows.user_code import check_user_code, code_sentence, with_digests
from mirrors.services.hooks import check_hook_keys
from mirrors.services.runners.pools import place_new_flow
from mirrors.services.runners.settings import check_not_retired, ensure_default_runner

_OLD_MASK = (
    "Rule {number} masks with {reference}. It still works, but new rules need UNDERSTUDY_MASK_… or "
    "a file for masks (docs/operations/access/secrets.md). Another key changes all masks."
)


def validate_settings(
    source: Cluster,
    target: Cluster,
    properties: Mapping[str, str],
    itself: Flow | None = None,
    backup: Mapping[str, str] | None = None,
) -> tuple[FlowSpec, list[str]]:
    """The spec and its warnings, checked against all flows that are not stopped.

    `backup`: settings of this flow that were accepted before, from a signed record.
    """
    if source.pk == target.pk:
        sentence = f"A flow needs two clusters; {source.alias} is both source and target."
        raise InvalidSettings({"target": [sentence]})
    spec = FlowSpec.build(source=source.spec, target=target.spec, properties=dict(properties))
    others = Flow.objects.select_related("source", "target")
    if itself is not None:
        others = others.exclude(pk=itself.pk)
    elif others.filter(source=source, target=target).exists():
        raise Conflict(f"A flow {source.alias}->{target.alias} already exists. Change that one.")
    active = others.exclude(desired_state=DesiredState.STOPPED)
    ids = dict(Cluster.objects.values_list("alias", "cluster_id"))
    warnings = check_flow(spec, [other.spec for other in active], ids)
    warnings += check_secrets_of_rules(spec, backup if itself is None else itself.properties)
    check_renamed_topics(spec, itself)
    check_label_topics(spec, itself)
    return spec, warnings


def check_secrets_of_rules(spec: FlowSpec, before: Mapping[str, str] | None) -> list[str]:
    """A rule may refer only to secrets of masks; none is read here. Returns warnings.

    Masks of guesses would confirm the right guess of a password. References in the settings
    `before` remain valid, unless a cluster uses the secret.
    """
    if not (found := _secret_references(spec.settings.transforms)):
        return []
    clusters = Cluster._base_manager.all()
    used = [
        str(each)
        for row in clusters
        for each in (*references_of(row.spec).values(), *row.properties.values())
    ]
    kept = _secrets_of_rules(before or {})
    refused, warnings = [], []
    for number, field, reference in found:
        why = check_reference(reference, purpose=Purpose.MASK)
        if why is not None and reference in kept:
            why = check_reference(reference)
            warnings.append(_OLD_MASK.format(number=number, reference=reference))
        if why is None and same_secret(reference, used):
            why = f"{reference} is a secret of a cluster. A mask needs a secret of its own."
        if why is not None:
            refused.append(f"{TRANSFORMS}, rule {number}, {field}: {why}")
    if refused:
        raise InvalidSettings({TRANSFORMS: refused})
    return warnings


def _secrets_of_rules(properties: Mapping[str, str]) -> set[str]:
    """The references in the rules of earlier settings of the flow."""
    try:
        rules = parse_rules(properties.get(TRANSFORMS) or "[]")
    except ValueError:
        return set()
    return {reference for _, _, reference in _secret_references(rules)}


def _secret_references(rules: Sequence[TransformRule]) -> list[tuple[int, str, str]]:
    if not rules:
        return []
    # Without rules, a program does not load the parser.
    from mirrors.domain.transforms.sql import secret_references  # noqa: PLC0415

    return secret_references(rules)


def lock_pairs() -> None:
    """Serializes creation, edit and start: two flows could each pass the check and form a loop."""
    list(Cluster.objects.select_for_update().order_by("pk").values_list("pk", flat=True))


def lock_flow(flow: Flow) -> Flow:
    # Without `of`, PostgreSQL would lock clusters and runner too.
    rows = Flow.objects.select_related("source", "target", "runner")
    return rows.select_for_update(of=("self",)).get(pk=flow.pk)


def forgive_failures(flow: Flow) -> None:
    """A person acted: earlier failures no longer count, and no backoff applies."""
    flow.forgiven_at, flow.retry_at, flow.attempt = timezone.now(), None, 0
    flow.save(update_fields=["forgiven_at", "retry_at", "attempt"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class EditPreview:
    """What an edit changes, what it restarts, and its warnings."""

    changes: tuple[dict[str, str | None], ...]
    restarts: tuple[str, ...]
    warnings: tuple[str, ...]


def create_flow(
    *,
    source: Cluster,
    target: Cluster,
    properties: Mapping[str, str],
    runner: Runner | None = None,
    desired_state: str = DesiredState.RUNNING,
    backup: Mapping[str, str] | None = None,
    who: str,
) -> Flow:
    """A new flow. Raises one sentence per setting that cannot work or would do harm."""
    with transaction.atomic():
        lock_pairs()
        spec, warnings = validate_settings(source, target, with_digests(properties), backup=backup)
        check_user_code((), spec.settings.transforms)
        check_hook_keys({}, spec.properties)
        check_not_retired(runner)
        placed = ""
        if runner is None:
            runner, placed = place_new_flow(runner=ensure_default_runner(who=who))
        flow = Flow.objects.create(
            source=source,
            target=target,
            runner=runner,
            properties=spec.properties,
            desired_state=desired_state,
            reason="" if desired_state == DesiredState.STOPPED else "Waiting for the reconciler.",
            warnings=warnings,
        )
        sentences = ("Created.", placed, code_sentence((), spec.settings.transforms))
        words = " ".join(sentence for sentence in sentences if sentence)
        record(flow, field="desired_state", before="", who=who, why=words)
        record_edit(flow, initial_changes(spec.properties), who=who)
        # People who see one direction see the other, since a failback uses both.
        opposite = FlowLabel.objects.filter(flow__source=target, flow__target=source)
        names = opposite.values_list("name", flat=True)
        FlowLabel.objects.bulk_create(FlowLabel(flow=flow, name=name) for name in names)
    return flow


def preview_update(
    *, flow: Flow, properties: Mapping[str, str] | None = None, runner: Runner | None = None
) -> EditPreview:
    """What `update_flow` with the same arguments would do; raises the same errors."""
    after = with_digests(flow.properties if properties is None else properties)
    spec, warnings = validate_settings(flow.source, flow.target, after, itself=flow)
    check_user_code(flow.spec.settings.transforms, spec.settings.transforms)
    check_not_retired(runner)
    warnings += _renames(flow, spec)
    check_hook_keys(flow.properties, spec.properties)
    check_not_loosened(flow, spec.settings.failover_second_person)
    changes = _changes(flow, after, runner)
    restarts: list[str] = []
    open_job = Job.objects.filter(flow=flow, ended_at__isnull=True).exists()
    moved = runner is not None and runner.pk != flow.runner_id
    is_live = not moved and is_live_edit(flow.properties, after)
    if changes and not is_live and (open_job or flow.desired_state != DesiredState.STOPPED):
        keys = ", ".join(str(change["key"]) for change in changes)
        restarts.append(
            f"{flow.name}: its job stops at a commit and a new one starts in the runner "
            f"{runner.name}; no record is lost or repeated."
            if moved and runner is not None
            else f"{flow.name}: its slices stop at a commit and start again with "
            f"the new {keys}; no record is lost or repeated."
        )
    return EditPreview(changes=changes, restarts=tuple(restarts), warnings=tuple(warnings))


def update_flow(
    *,
    flow: Flow,
    properties: Mapping[str, str] | None = None,
    runner: Runner | None = None,
    who: str,
    why: str = "",
) -> Flow:
    """Change settings or runner. Takes effect at a commit; `generation` shows when it has."""
    with transaction.atomic():
        lock_pairs()
        locked = lock_flow(flow)
        after = with_digests(locked.properties if properties is None else properties)
        spec, warnings = validate_settings(locked.source, locked.target, after, itself=locked)
        rules = locked.spec.settings.transforms
        check_user_code(rules, spec.settings.transforms)
        check_not_retired(runner)
        check_hook_keys(locked.properties, spec.properties)
        check_not_loosened(locked, spec.settings.failover_second_person)
        changes = _changes(locked, after, runner)
        if not changes:
            return locked
        locked.properties = spec.properties
        locked.warnings = warnings
        locked.runner = runner or locked.runner
        locked.generation += 1
        forgive_failures(locked)
        locked.save(update_fields=["properties", "warnings", "runner", "generation"])
        record_edit(locked, changes, who=who)
        code = code_sentence(rules, spec.settings.transforms)
        words = ". ".join(part for part in (changes_sentence(changes), why, code) if part)
        note(locked, what="edited", who=who, why=words)
    return locked


def delete_flow(*, flow: Flow, who: str) -> None:
    """Remove a stopped flow. Its remote topics and positions remain."""
    with transaction.atomic():
        locked = lock_flow(flow)
        copying = Job.objects.filter(flow=locked, ended_at__isnull=True).exists()
        if copying or locked.desired_state != DesiredState.STOPPED:
            raise Conflict(
                f"{locked.name} is not stopped. Stop it, wait until it has stopped, then remove it."
            )
        if has_own_rule(locked):
            # Otherwise somebody could remove the flow and create it again without the rule.
            raise Conflict(
                f"{locked.name} requires a second person for failovers. Drop that rule first, on "
                "the page Approvals; then remove the flow."
            )
        note(locked, what="deleted", who=who, why="")
        locked.delete()


def _changes(
    flow: Flow, after: Mapping[str, str], runner: Runner | None
) -> tuple[dict[str, str | None], ...]:
    before: dict[str, str] = flow.properties
    found: list[dict[str, Any]] = [
        {"key": key, "before": before.get(key), "after": after.get(key)}
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if runner is not None and runner.pk != flow.runner_id:
        found.append({"key": "runner", "before": flow.runner.name, "after": runner.name})
    return tuple(found)


def _renames(flow: Flow, after: FlowSpec) -> list[str]:
    """The effect of an edit on existing remote topics."""
    old, new = (
        policy_for(spec.settings, spec.source.alias, spec.target.alias).format_remote_topic(
            spec.source.alias, "orders"
        )
        for spec in (flow.spec, after)
    )
    if old == new or not Job.objects.filter(flow=flow).exists():
        return []
    return [
        f"Names of remote topics change ({old} becomes {new}). Existing copies keep the old "
        "names, and every partition replicated so far stops, because its position belongs to "
        "the old topic. To replicate again under the new names, delete the positions first."
    ]

"""What every change of a flow asks for first: its row locked, and its settings judged."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils import timezone

from mirrors.domain.conflicts import check_flow
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.specs import FlowSpec
from mirrors.models import Cluster, Flow
from mirrors.models.flows import DesiredState
from mirrors.services.errors import Conflict


def judge_settings(
    source: Cluster, target: Cluster, properties: Mapping[str, str], itself: Flow | None = None
) -> tuple[FlowSpec, list[str]]:
    """The spec and its warnings, judged beside all flows that are not at rest."""
    if source.pk == target.pk:
        sentence = f"A flow needs two clusters; {source.alias} is both source and target."
        raise InvalidSettings({"target": [sentence]})
    spec = FlowSpec.build(source=source.spec, target=target.spec, properties=dict(properties))
    others = Flow.objects.select_related("source", "target")
    if itself is not None:
        others = others.exclude(pk=itself.pk)
    elif others.filter(source=source, target=target).exists():
        raise Conflict(f"A flow {source.alias}->{target.alias} exists already. Change that one.")
    active = others.exclude(desired_state=DesiredState.STOPPED)
    ids = dict(Cluster.objects.values_list("alias", "cluster_id"))
    return spec, check_flow(spec, [other.spec for other in active], ids)


def lock_pairs() -> None:
    """One creation, edit or start at a time, or two flows could each pass and loop together."""
    list(Cluster.objects.select_for_update().order_by("pk").values_list("pk", flat=True))


def lock_flow(flow: Flow) -> Flow:
    # Without `of`, PostgreSQL would lock clusters and runner too.
    rows = Flow.objects.select_related("source", "target", "runner")
    return rows.select_for_update(of=("self",)).get(pk=flow.pk)


def forgive_failures(flow: Flow) -> None:
    """A person acted: what failed before counts no more, and nothing waits for a next try."""
    flow.forgiven_at, flow.retry_at, flow.attempt = timezone.now(), None, 0
    flow.save(update_fields=["forgiven_at", "retry_at", "attempt"])

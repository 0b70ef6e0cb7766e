"""Rows of what the flow left on its target: remote topics, and the ACLs that it created."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db import transaction

from mirrors.domain.topics.acls import AclRule
from mirrors.domain.topics.drift import Baseline
from mirrors.domain.topics.sync_plan import ConfigChange
from mirrors.models import CarriedAcl, TopicBaseline
from mirrors.services.drift.findings import digest_of

_BATCH = 500


# --- the state that the flow left on its target -------------------------------------------------


def baselines_of(flow_id: int) -> dict[str, Baseline]:
    rows = TopicBaseline.objects.filter(flow=flow_id).order_by()
    return {
        row.remote_topic: Baseline(
            topic_id=row.topic_id, partitions=row.partitions, configs=row.configs
        )
        for row in rows.iterator()
    }


def store_baselines(
    flow_id: int, before: Mapping[str, Baseline], after: Mapping[str, Baseline]
) -> None:
    """Write only changes: an unchanged minute writes nothing."""
    changed = [name for name, base in after.items() if before.get(name) != base]
    gone = sorted(before.keys() - after.keys())
    with transaction.atomic():
        for start in range(0, len(gone), _BATCH):
            rows = TopicBaseline.objects.filter(flow=flow_id)
            rows.filter(remote_topic__in=gone[start : start + _BATCH]).delete()
        TopicBaseline.objects.bulk_create(
            [
                TopicBaseline(flow_id=flow_id, remote_topic=name, **dataclasses.asdict(after[name]))
                for name in changed
            ],
            batch_size=_BATCH,
            update_conflicts=True,
            unique_fields=("flow", "remote_topic"),
            update_fields=("topic_id", "partitions", "configs"),
        )


def record_applied(flow_id: int, changes: Iterable[ConfigChange]) -> None:
    """A person applied these settings: the flow left them so."""
    before = baselines_of(flow_id)
    after = dict(before)
    for change in changes:
        if (base := after.get(change.remote_topic)) is None:
            continue
        configs = {key: value for key, value in base.configs.items() if key != change.key}
        if change.after is not None:
            configs[change.key] = change.after
        after[change.remote_topic] = dataclasses.replace(base, configs=configs)
    store_baselines(flow_id, before, after)


# --- ACLs that the flow created -----------------------------------------------------------------


def replicated_acls(flow_id: int) -> frozenset[AclRule]:
    rows = CarriedAcl.objects.filter(flow=flow_id).order_by().values_list("rule", flat=True)
    return frozenset(AclRule(**row) for row in rows)


def record_acls(
    flow_id: int, *, made: Iterable[AclRule], gone: Iterable[AclRule], now: datetime
) -> None:
    """`made`: created where none was before. `gone`: no longer the flow's."""
    rows = [
        CarriedAcl(flow_id=flow_id, rule=fields, digest=digest_of(fields), made_at=now)
        for rule in made
        for fields in (dataclasses.asdict(rule),)
    ]
    names = [digest_of(dataclasses.asdict(rule)) for rule in gone]
    with transaction.atomic():
        CarriedAcl.objects.filter(flow=flow_id, digest__in=names).delete()
        CarriedAcl.objects.bulk_create(rows, batch_size=_BATCH, ignore_conflicts=True)

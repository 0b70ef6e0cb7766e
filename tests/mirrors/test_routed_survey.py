"""A survey of groups with routes: a row for each target topic, stored and planned apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.offsets.generation import generation
from mirrors.domain.offsets.runs import OpenBlock, Run
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.kafka.admin.groups import GroupListing, GroupListings
from mirrors.kafka.admin.groups import GroupOffset as KafkaOffset
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import GroupOffset, PartitionMap, RunBlock
from mirrors.services.clock import Budget
from mirrors.services.failover.resume_offsets import replicated_end_offsets
from mirrors.services.groups import survey
from mirrors.services.groups.mm2_checkpoints import store_survey
from tests.domain.snapshots import topic
from tests.pages import world

pytestmark = pytest.mark.django_db


class FakeAdmin:
    """Answers for both clusters: every partition holds offsets 0 to 99."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_offsets(
        self, partitions: Iterable[TopicPartition], at: str, **_: Any
    ) -> Partial[TopicPartition, int]:
        return Partial(dict.fromkeys(partitions, 0 if at == "earliest" else 100))

    def snapshot(self, names: Iterable[str], **_: Any) -> ClusterSnapshot:
        topics = {name: topic(name) for name in names}
        return ClusterSnapshot(taken_at=0, cluster_id="b", brokers=1, topics=topics)


def test_a_group_has_a_row_for_each_target_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = TransformRule(topics="orders", topic="null", routes=("eu", "ap"))
    flow = world.flow(properties={TRANSFORMS: format_rules([rule])})
    remote = f"{flow.source.alias}.orders"
    # Source offset 10 and 30 to the topic of the policy, 20 to eu, nothing to ap.
    for route, runs in (("", [Run(10, 0, 1), Run(30, 1, 1)]), ("eu", [Run(20, 0, 1)]), ("ap", [])):
        known = PartitionMap.with_routes.create(
            flow=flow, topic="orders", partition=0, route=route, position=40, into=route or "main",
            generation=generation("a", "s", "b", route or "main"), map_end=len(runs) or None,
        )  # fmt: skip
        block = None
        for run in runs:
            block = OpenBlock.begin(run) if block is None else block.add(run)
        if block is not None:
            RunBlock.objects.create(
                map=known, first=runs[0].upstream, downstream=0, topic_offset=0,
                body=block.to_bytes(),
            )  # fmt: skip
    world.partition(flow, "orders", 0, lane="raw", position=40)
    listed = {"g": GroupListing(name="g", type="classic", state="Empty", protocol_type="consumer")}
    at_source = Partial({"g": Partial({("orders", 0): KafkaOffset(15, "")})})
    monkeypatch.setattr(survey, "Admin", FakeAdmin)
    monkeypatch.setattr(survey, "refresh_index", lambda **_: None)
    monkeypatch.setattr(survey, "find_bounds", lambda **_: False)
    monkeypatch.setattr(survey, "list_reachable_groups", lambda *_, **__: GroupListings(listed))

    def offsets(spec: Any, wanted: Any, **_: Any) -> Any:
        is_source = spec.alias == flow.source.alias
        return at_source if is_source else Partial({"g": Partial()})

    monkeypatch.setattr(survey, "read_offsets", offsets)
    now = timezone.now()
    seen = survey.survey_groups(flow=flow, spec=flow.spec, now=now, budget=Budget(10))
    assert [(row.route, row.remote_topic) for row in seen.group_partitions] == [
        ("", remote), ("eu", "eu"), ("ap", "ap"),
    ]  # fmt: skip
    for _ in range(2):
        store_survey(flow=flow, spec=flow.spec, survey=seen, now=now)
        rows = {row.route: row for row in GroupOffset.objects.filter(flow=flow)}
        assert {route: row.translated_offset for route, row in rows.items()} == {
            "": 1, "eu": 0, "ap": None,
        }  # fmt: skip
    assert rows["eu"].remote_topic == "eu"
    assert "routed no record of orders-0 to ap so far" in rows["ap"].reason
    assert replicated_end_offsets(flow, {("orders", 0): 40}) == {("orders", 0): 2}
    assert replicated_end_offsets(flow, {("orders", 0): 40}, "eu") == {("orders", 0): 1}

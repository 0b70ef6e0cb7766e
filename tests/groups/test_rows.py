"""Rows of consumer groups: added, removed, and excluded by changed settings."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.groups.checkpoints import OffsetUpdate
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.kafka.admin.groups import GroupListing, GroupListings
from mirrors.kafka.admin.groups import GroupOffset as KafkaOffset
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Flow, FlowPartition, GroupBookmark, GroupOffset, PartitionMap
from mirrors.services.clock import Budget, milliseconds
from mirrors.services.failover import source_groups
from mirrors.services.groups import survey as surveys
from mirrors.services.groups.mm2_checkpoints import store_survey
from mirrors.services.groups.mm2_offset_syncs import write_offset_syncs
from mirrors.services.groups.store import (
    known_groups,
    known_partitions,
    store_listing,
    store_offset_updates,
)
from tests.pages import world

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def look(flow: Flow, *names: str, kind: str = "classic", later: int = 0, silent: str = "") -> None:
    listed = {
        name: GroupListing(name=name, type=kind, state="Empty", protocol_type="consumer")
        for name in names
    }
    now = NOW + timedelta(seconds=later)
    errors = (KafkaUnavailable(silent),) if silent else ()
    store_listing(flow=flow, spec=flow.spec, listed=GroupListings(listed, errors), now=now)


def states(flow: Flow) -> dict[tuple[str, str], str]:
    return {(row.group, row.topic): row.sync_state for row in flow.groups.all()}


def settle(flow: Flow, group: str, later: int = 0, **seen: int | None) -> None:
    now = NOW + timedelta(seconds=later)
    row = GroupPartition(group=group, topic="t", partition=0, remote_topic="a.t", **seen)  # type: ignore[arg-type]
    store_offset_updates(
        flow=flow, groups=[group], found=[(row, OffsetUpdate("off", None, "off"))], now=now
    )


def test_an_offset_keeps_its_age_until_it_moves() -> None:
    flow = world.flow()
    look(flow, "app")
    for later, offset, since in ((0, 5, 0), (60, 5, 0), (120, 6, 120), (180, None, None)):
        settle(flow, "app", later=later, source_offset=offset, target_offset=1)
        found = flow.groups.get(topic="t").offset_since
        assert found == (None if since is None else NOW + timedelta(seconds=since))
    # An offset that comes back begins again.
    settle(flow, "app", later=240, source_offset=6, target_offset=1)
    assert flow.groups.get(topic="t").offset_since == NOW + timedelta(seconds=240)


def test_only_rows_that_changed_are_written_and_all_say_when_they_were_read() -> None:
    flow = world.flow()
    look(flow, "app", "idle")

    def settle_both(later: int, offset: int) -> None:
        rows = [
            GroupPartition(
                group=group, topic="t", partition=0, remote_topic="a.t", source_offset=at
            )
            for group, at in (("app", offset), ("idle", 7))
        ]
        found = [(row, OffsetUpdate("off", None, "off")) for row in rows]
        now = NOW + timedelta(seconds=later)
        store_offset_updates(flow=flow, groups=["app", "idle"], found=found, now=now)

    settle_both(0, 5)
    with CaptureQueriesContext(connection) as queries:
        settle_both(60, 6)
    (written,) = [
        row["sql"] for row in queries if 'INSERT INTO "mirrors_groupoffset"' in row["sql"]
    ]
    assert "'app'" in written
    assert "'idle'" not in written
    later = NOW + timedelta(seconds=60)
    found = set(flow.groups.values_list("group", "source_offset", "offset_since", "as_of"))
    assert found == {("app", 6, later, later), ("idle", 7, NOW, later)}


def test_groups_come_go_and_are_left_out_as_the_settings_say() -> None:
    flow = world.flow(properties={"groups.exclude": "tmp.*"})
    look(flow, "app", "tmp-1", "x" * 501, "nul\0")
    assert states(flow) == {("app", ""): "waiting", ("tmp-1", ""): "excluded"}
    settle(flow, "app", source_offset=5)
    assert states(flow) == {("app", "t"): "off", ("tmp-1", ""): "excluded"}
    flow.properties = {"groups.exclude": "app"}
    look(flow, "app", "tmp-1")
    assert states(flow) == {("app", ""): "excluded", ("tmp-1", ""): "waiting"}
    assert known_groups(flow=flow, spec=flow.spec) == ["tmp-1"]
    look(flow, "tmp-1", kind="share")
    assert states(flow) == {("tmp-1", ""): "excluded"}
    assert flow.groups.get().reason == "is a share group, which has no consumer offsets"


def test_a_group_that_is_gone_stays_while_the_target_has_it() -> None:
    flow = world.flow()
    look(flow, "app")
    settle(flow, "app", source_offset=5, target_offset=4)
    look(flow)
    settle(flow, "app", target_offset=4)
    assert states(flow) == {("app", "t"): "off"}
    settle(flow, "app")
    assert states(flow) == {("app", ""): "unknown"}
    look(flow)
    assert states(flow) == {}


def test_a_group_that_a_silent_broker_may_coordinate_stays() -> None:
    flow = world.flow()
    look(flow, "app", "other")
    look(flow, "other", silent="b1:9092 did not answer in time.")
    assert states(flow) == {("app", ""): "waiting", ("other", ""): "waiting"}
    look(flow, "other")
    assert states(flow) == {("other", ""): "waiting"}


def test_a_flow_that_rests_costs_its_offset_syncs_no_question_to_kafka() -> None:
    flow = world.flow()
    world.partition(flow, position=40)
    world.partition(flow, number=1, position=0)
    for number, position in enumerate((40, 0)):
        PartitionMap.objects.create(
            flow=flow, topic="orders", partition=number, generation="g", position=position
        )
    GroupBookmark.objects.create(flow=flow, syncs_id=f"{flow.source.alias}:id")
    turn = SyncTaskContext(flow_id=flow.pk, spec=flow.spec, now=0, deadline_s=3)
    # No broker is there to be asked.
    assert write_offset_syncs(turn).counts == {"partitions": 0, "syncs": 0}
    FlowPartition.objects.filter(partition=0).update(position=41)
    with pytest.raises(KafkaUnavailable):
        write_offset_syncs(turn)


def test_two_thousand_groups_that_are_left_out_cost_a_look_next_to_nothing() -> None:
    flow = world.flow()
    names = [f"console-consumer-{number}" for number in range(2_000)]
    look(flow, *names)
    with CaptureQueriesContext(connection) as asked:
        look(flow, *names, later=30)
    # Three of them refresh the summaries.
    assert len(asked) < 11
    assert GroupOffset.objects.filter(as_of__gt=NOW).count() == 2_000


def test_a_known_group_that_may_not_be_described_any_more_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka lists only groups that may be described: without a right, as if it were deleted."""
    flow = world.flow()
    for name in ("app", "hidden", "deleted"):
        look(flow, "app", "hidden", "deleted")
        settle(flow, name, source_offset=5)
    refused = KafkaRefused("The principal may not read the offsets of group hidden.", code="x")

    def read(_: object, groups: dict[str, object], **more: object) -> object:
        here = {"app": Partial({("t", 0): KafkaOffset(5)}, {}), "deleted": Partial({}, {})}
        done = {name: here[name] for name in groups if name in here}
        return Partial(done, {"hidden": refused} if "hidden" in groups else {})

    one = GroupListing(name="app", type="classic", state="Empty", protocol_type="consumer")
    monkeypatch.setattr(
        source_groups, "list_reachable_groups", lambda *_, **__: GroupListings({"app": one})
    )
    monkeypatch.setattr(source_groups, "read_offsets", read)
    look(flow, "app")
    asked = {"flow": flow, "spec": flow.spec, "remote": {"t": "a.t"}, "deadline_s": 1.0}
    seen = source_groups.groups_on_source(names=(), **asked)
    assert {one.group: one.trouble for one in seen.groups} == {
        "app": "",
        "hidden": refused.message,
    }


def survey(flow: Flow, monkeypatch: pytest.MonkeyPatch, later: int, **read: int | str) -> None:
    """Store what a survey finds when each group's offset of t-0 is this, or cannot be read."""
    answer: Partial[str, Partial[tuple[str, int], KafkaOffset]] = Partial()
    for group, offset in read.items():
        if isinstance(offset, str):
            answer.failed[group] = KafkaUnavailable(offset)
        else:
            answer.done[group] = Partial(done={("t", 0): KafkaOffset(offset)} if offset else {})
    monkeypatch.setattr(surveys, "read_offsets", lambda *_, **__: answer)
    known = known_partitions(flow=flow)
    rows, unreadable = surveys._on_source(flow.spec.source, sorted(read), known, Budget(5.0))
    found = surveys.Survey(
        groups=tuple(sorted(read)),
        group_partitions=tuple(surveys._selected(flow.spec, rows)),
        states={},
        unreadable=unreadable,
    )
    store_survey(flow=flow, spec=flow.spec, survey=found, now=NOW + timedelta(seconds=later))


def test_a_new_group_whose_offsets_cannot_be_read_is_not_called_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = world.flow()
    look(flow, "app", "empty", "new")
    survey(flow, monkeypatch, 0, app="Broker 2 did not respond.", empty=0)
    said = {row.group: (row.sync_state, row.reason) for row in flow.groups.all()}
    wanted = "its offsets on the source could not be read: Broker 2 did not respond."
    assert said["app"] == ("failed", wanted)
    assert said["empty"] == ("unknown", "the group has no committed offset on the source")
    # A plan without the source names those that nobody read, and not the empty one.
    lost = source_groups.groups_from_rows(flow=flow, names=(), remote={"t": "a.t"})
    assert {row.group: row.trouble for row in lost.groups} == {
        "app": wanted,
        "new": "found on the source; the next run reads its offsets",
    }


def test_a_partition_that_nobody_read_is_told_from_one_whose_offset_was_deleted() -> None:
    flow = world.flow()
    look(flow, "app")
    facts = {"group": "app", "topic": "t", "remote_topic": "a.t"}
    rows = (
        GroupPartition(**facts, partition=0, source_offset=7),
        GroupPartition(**facts, partition=1, trouble="Broker 2 did not respond."),
        GroupPartition(**facts, partition=2, target_offset=5),
        GroupPartition(**facts, partition=3, target_trouble="West did not respond."),
    )
    found = surveys.Survey(groups=("app",), group_partitions=rows, states={})
    store_survey(flow=flow, spec=flow.spec, survey=found, now=NOW)
    stored = flow.groups.filter(topic="t").values_list("partition", "source_offset")
    unread = flow.groups.filter(source_unread=True).values_list("partition", flat=True)
    assert (sorted(stored), list(unread)) == ([(0, 7), (1, None), (2, None), (3, None)], [1])
    lost = source_groups.groups_from_rows(flow=flow, names=(), remote={"t": "a.t"})
    (group,) = lost.groups
    assert group.seen_at == milliseconds(NOW)
    assert [(row.partition, row.trouble) for row in group.group_partitions] == [
        (0, ""),
        (1, "Broker 2 did not respond."),
    ]
    # An earlier offset is known: it counts, with its age.
    later = tuple(dataclasses.replace(row, source_offset=None, trouble="Late.") for row in rows[:1])
    found = dataclasses.replace(found, group_partitions=later)
    store_survey(flow=flow, spec=flow.spec, survey=found, now=NOW + timedelta(seconds=60))
    row = flow.groups.get(topic="t")
    assert (row.source_offset, row.source_unread, row.as_of) == (7, False, NOW)


def test_that_a_group_has_no_offset_is_known_when_the_source_dies_later() -> None:
    flow = world.flow()
    look(flow, "app")
    facts = {"group": "app", "topic": "t", "remote_topic": "a.t"}
    deleted = GroupPartition(**facts, partition=0, target_offset=5)
    never = GroupPartition(**facts, partition=1, trouble="Broker 2 did not respond.")
    for at, rows in enumerate(
        [(deleted, never), [dataclasses.replace(row, trouble="Late.") for row in (deleted, never)]]
    ):
        found = surveys.Survey(groups=("app",), group_partitions=tuple(rows), states={})
        now = NOW + timedelta(seconds=60 * at)
        store_survey(flow=flow, spec=flow.spec, survey=found, now=now)
    stored = flow.groups.filter(topic="t").values_list("partition", "source_unread", "as_of")
    assert sorted(stored) == [(0, False, NOW), (1, True, NOW + timedelta(seconds=60))]


def test_a_target_that_does_not_respond_leaves_no_offset_of_the_source_unread() -> None:
    admin = SimpleNamespace(
        snapshot=lambda *_, **__: SimpleNamespace(topics={}, failed={"a.t": "West is slow."}),
        list_offsets=lambda *_, **__: Partial(),
    )
    facts = {"group": "app", "topic": "t", "partition": 0, "remote_topic": "a.t"}
    rows = [GroupPartition(**facts), GroupPartition(**facts, source_offset=7)]
    deleted, known = surveys._with_ends(admin, rows, Budget(5.0))
    assert (deleted.is_unread, deleted.trouble, deleted.target_trouble) == (
        False,
        "",
        "West is slow.",
    )
    assert (known.trouble, known.target_trouble) == ("West is slow.", "")


def test_an_offset_that_cannot_be_read_any_more_keeps_its_last_value_and_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = world.flow()
    look(flow, "app", "other")
    survey(flow, monkeypatch, 0, app=7, other=8)
    for later in (60, 120):
        survey(flow, monkeypatch, later, app="Broker 2 did not respond.", other=9)
        rows = {row.group: row for row in flow.groups.filter(topic="t")}
        app, other = rows["app"], rows["other"]
        assert (app.source_offset, app.as_of, app.offset_since) == (7, NOW, NOW)
        assert (app.sync_state, app.reason) == ("unknown", "Broker 2 did not respond.")
        assert (other.source_offset, other.as_of) == (9, NOW + timedelta(seconds=later))
        assert (app.source_lag, app.translated_offset) == (None, None)
    lost = source_groups.groups_from_rows(flow=flow, names=(), remote={"t": "a.t"})
    (group,) = (row for row in lost.groups if row.group == "app")
    assert group.seen_at == milliseconds(NOW)
    assert [row.source_offset for row in group.group_partitions] == [7]
    # Read again, it is as new as the others; deleted, it is gone.
    survey(flow, monkeypatch, 180, app=7, other=9)
    assert flow.groups.get(group="app").as_of == NOW + timedelta(seconds=180)
    survey(flow, monkeypatch, 240, app=0, other=9)
    assert not flow.groups.filter(group="app", topic="t").exists()

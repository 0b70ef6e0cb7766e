"""The pages of consumer groups, and their REST: lag, resume readiness, problems first."""

from __future__ import annotations

import csv
import io
from importlib import import_module
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.domain.groups.checkpoints import SYNC_STATES, OffsetUpdate
from mirrors.domain.groups.commands import describe_group
from mirrors.domain.groups.resume import GroupPartition, source_lag_of
from mirrors.kafka.admin.groups import GroupListing, GroupListings
from mirrors.lists.groups import CONSUMER_GROUPS
from mirrors.models import Flow, GroupOffset, GroupSummary
from mirrors.models.drills import readiness
from mirrors.models.groups.summaries import (
    WORST_FIRST,
    finish_summaries,
    group_summaries,
    refresh_summaries,
)
from mirrors.services.groups.store import store_listing, store_offset_updates
from tests.pages import world
from tests.pages.conftest import As


def offset(of: Flow, group: str, number: int = 0, **facts: Any) -> GroupOffset:
    usual = {"source_offset": 90, "translated_offset": 80, "target_offset": 80, "source_lag": 10}
    usual |= {"re_reads": 0, "outcome": "exact", "sync_state": "in_sync", "source_state": "Stable"}
    return GroupOffset.objects.create(
        flow=of,
        group=group,
        topic="orders",
        partition=number,
        as_of=timezone.now(),
        **{**usual, **facts},
    )


def summary(group: str) -> dict[str, Any]:
    (found,) = finish_summaries(group_summaries().filter(group=group))
    return found


@pytest.mark.parametrize(
    ("place", "lag"),
    [((90, 100), 10), ((100, 100), 0), ((None, 100), None), ((90, None), None), ((101, 100), None)],
)
def test_lag_is_unknown_and_not_zero_if_an_offset_is_missing(
    place: tuple[int | None, int | None], lag: int | None
) -> None:
    at, end = place
    found = GroupPartition(group="g", topic="t", partition=0, source_offset=at, source_end=end)
    assert source_lag_of(found) == lag


def test_every_sync_state_has_a_rank() -> None:
    assert sorted(WORST_FIRST) == sorted(SYNC_STATES)


@pytest.mark.django_db
def test_the_survey_stores_lag_and_state_of_a_group() -> None:
    flow = world.flow()
    one = GroupListing(name="app", type="classic", state="Stable", protocol_type="consumer")

    def listing(*groups: GroupListing) -> None:
        listed = GroupListings({group.name: group for group in groups})
        store_listing(flow=flow, spec=flow.spec, listed=listed, now=timezone.now())

    listing(one)
    group_partitions = [
        GroupPartition(
            group="app",
            topic="t",
            partition=at,
            remote_topic="a.t",
            source_offset=5,
            source_end=end,
        )
        for at, end in enumerate((7, None))
    ]
    store_offset_updates(
        flow=flow,
        groups=["app"],
        found=[
            (group_partition, OffsetUpdate("off", None, "off"))
            for group_partition in group_partitions
        ],
        now=timezone.now(),
    )
    listing(one)
    rows = list(GroupOffset.objects.order_by("partition"))
    assert [row.source_lag for row in rows] == [2, None]
    assert {row.source_state for row in rows} == {"Stable"}
    assert (summary("app")["partitions"], summary("app")["least_lag"]) == (2, 2)
    assert summary("app")["group_state"] == "Stable"
    # The target still has its offset, but the source does not list it any more.
    listing()
    assert {row.source_state for row in GroupOffset.objects.all()} == {""}
    assert summary("app")["group_state"] == ""
    # Without an offset anywhere, the group is gone.
    store_offset_updates(flow=flow, groups={"app"}, found=[], now=timezone.now())
    assert summary("app")["partitions"] == 0
    listing()
    assert not group_summaries().exists()


@pytest.mark.django_db
def test_the_migration_makes_the_summaries_that_a_survey_makes() -> None:
    flow = world.flow()
    for at, state in enumerate(sorted(SYNC_STATES)):
        offset(flow, state, sync_state=state, reason=f"because {state}")
        offset(flow, "all", at, sync_state=state, source_lag=at or None, re_reads=at or None)
    of_all = [field.attname for field in GroupSummary._meta.fields if field.name != "id"]
    before = list(GroupSummary.objects.order_by("group").values_list(*of_all))
    GroupSummary.objects.all().delete()
    migration = import_module("mirrors.migrations.0082_group_summaries")
    with connection.cursor() as cursor:
        cursor.execute(migration.FILL)
    assert list(GroupSummary.objects.order_by("group").values_list(*of_all)) == before
    assert len(before) == len(SYNC_STATES) + 1


@pytest.mark.django_db
def test_a_total_with_an_unknown_part_is_a_lower_bound() -> None:
    flow = world.flow()
    offset(flow, "known"), offset(flow, "known", 1, source_lag=0, re_reads=3)
    offset(flow, "partly")
    why = {"sync_state": "unknown", "reason": "not allowed", "translated_offset": None}
    offset(flow, "partly", 1, source_lag=None, re_reads=None, **why)
    offset(flow, "known", 2, sync_state="not_copied", source_lag=None, re_reads=None)
    known, partly = summary("known"), summary("partly")
    assert (known["lag"], known["re_reads"], known["ready"], known["partitions"]) == (10, 3, 2, 2)
    assert (known["worst"], known["lag_reason"]) == ("orders-0", "")
    assert (partly["lag"], partly["least_lag"], partly["re_reads"]) == (None, 10, None)
    assert (partly["sync"], partly["reason"], partly["ready"]) == ("unknown", "not allowed", 1)
    assert partly["lag_reason"] == "Lag unknown in 1 of 2 partitions: not allowed"


@pytest.mark.django_db
def test_resume_readiness_counts_the_same_partitions_as_the_flow_s_readiness() -> None:
    flow = world.flow()
    offset(flow, "a"), offset(flow, "a", 1, translated_offset=None, sync_state="unknown")
    offset(flow, "b", sync_state="not_copied"), offset(flow, "b", 1)
    rows = finish_summaries(group_summaries())
    counted = sum(row["partitions"] for row in rows), sum(row["ready"] for row in rows)
    assert readiness._group_partitions([flow.pk]) == {flow.pk: counted} == {flow.pk: (3, 2)}


def test_page_and_rest_show_the_same_groups_problems_first(signed_in: As) -> None:
    client, flow, other = signed_in("viewer"), world.busy(), world.flow()
    offset(flow, "well", source_lag=4_000)
    offset(flow, "<b>/bad", sync_state="failed", reason="Kafka refused it", source_lag=1_234)
    offset(other, "elsewhere")
    text = client.get("/groups/").content.decode()
    assert text.index("Kafka refused it") < text.index("4,000") < text.index("elsewhere")
    assert "<b>/bad" not in text
    assert "elsewhere" not in client.get("/groups/", {"flow": flow.pk}).content.decode()
    only = client.get("/groups/", {"sync": "failed"}).content.decode()
    assert "Kafka refused it" in only
    assert "4,000" not in only
    file = client.get("/groups/", {"as": "csv"}).getvalue().decode()
    lags = {row["group"]: row["lag"] for row in csv.DictReader(io.StringIO(file))}
    rows = client.get("/api/v1/consumer-groups/").json()["results"]
    assert {row["group"]: str(row["lag"]) for row in rows} == lags
    assert [row["group"] for row in rows] == ["<b>/bad", "well", "elsewhere"]
    chosen = {"flow": flow.pk, "ordering": "-lag", "state": "Stable"}
    rows = client.get("/api/v1/consumer-groups/", chosen).json()["results"]
    assert [row["group"] for row in rows] == ["well", "<b>/bad"]


def test_every_order_of_page_and_rest_has_every_group_once(signed_in: As) -> None:
    client, flow = signed_in("viewer"), world.busy()
    for at, name in enumerate(("a", "b", "c")):
        offset(flow, name, source_lag=at), offset(flow, name, 1, source_lag=at)
    for column in CONSUMER_GROUPS.headings:
        for sign in ("", "-") if column.sort else ():
            text = client.get("/groups/", {"sort": sign + column.key}).content.decode()
            assert text.count("/group/?group=") == 3, column.key
            order = {"ordering": sign + (column.rest_name or "")}
            rows = client.get("/api/v1/consumer-groups/", order).json()["results"]
            assert sorted(row["group"] for row in rows) == ["a", "b", "c"], column.key
    rows = client.get("/api/v1/consumer-groups/", {"ordering": "-lag"}).json()["results"]
    assert [row["lag"] for row in rows] == [4, 2, 0]


def test_the_page_of_a_group_has_its_partitions_and_commands(signed_in: As) -> None:
    client, flow = signed_in("viewer"), world.busy()
    name = "it's /one"
    offset(flow, name, source_offset=77_777), offset(flow, name, 1, source_lag=None)
    text = client.get(f"/flows/{flow.pk}/group/?group={quote(name, safe='')}").content.decode()
    assert "77,777" in text
    assert text.count("kafka-consumer-groups.sh --bootstrap-server") == 2
    assert "Lag unknown in 1 of 2 partitions." in text
    assert client.get(f"/flows/{flow.pk}/group/?group=none").status_code == 404


def test_a_command_is_quoted_for_the_shell() -> None:
    assert describe_group("a:1,b:2", "-x; rm 'y'", config_file="east-client.properties") == (
        "kafka-consumer-groups.sh --bootstrap-server a:1,b:2 --command-config "
        "east-client.properties --describe '--group=-x; rm '\"'\"'y'\"'\"''"
    )


def test_ten_thousand_groups_cost_few_queries(signed_in: As) -> None:
    client, flow = signed_in("viewer"), world.busy()
    now = timezone.now()
    usual = {"source_offset": 1, "translated_offset": 1, "re_reads": 0, "sync_state": "in_sync"}
    GroupOffset.objects.bulk_create(
        [
            GroupOffset(
                flow=flow,
                group=f"app-{number}",
                topic="orders",
                partition=part,
                source_lag=number * part,
                as_of=now,
                **usual,  # type: ignore[arg-type]
            )
            for number in range(10_000)
            for part in range(3)
        ],
        batch_size=500,
    )
    refresh_summaries(flow)
    client.get("/groups/")
    with CaptureQueriesContext(connection) as asked:
        text = client.get("/groups/").content.decode()
    assert "app-9999" in text
    assert len(asked) < 20

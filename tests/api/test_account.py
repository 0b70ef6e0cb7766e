"""In one revision REST, metrics and the pages of flows, topics and groups agree to the record."""

from __future__ import annotations

import html
import random
import re
from collections import defaultdict
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, TopicStatus
from mirrors.models import Flow, GroupOffset, Role
from mirrors.services.clock import milliseconds
from mirrors.services.flows import progress
from tests.pages import world


def partition(topic: str, number: int, dice: random.Random, now: int) -> PartitionStatus:
    """In any state that a runner reports."""
    position = dice.choice([None, dice.randrange(500)])
    end = dice.choice([None, dice.randrange(1_000), dice.randrange(1_000)])
    first = dice.choice([None, dice.randrange(100)])
    kind = dice.choice([None, None, None, "recreated", "truncated", "remote_missing", "refused"])
    gap = None
    if kind is not None and position is not None:
        cut = dice.randrange(position + 1)
        gap = GapFacts(kind=kind, position=position, first=first, end=cut, behind=None)
    return PartitionStatus(
        topic=topic, partition=number, remote_topic=f"east.{topic}",
        state="gap" if gap else "syncing", reason="", position=position, source_end=end,
        source_stable_end=end, time_lag_ms=dice.choice([None, 5_000]), lane="raw",
        as_of=now - dice.choice([0, 0, 0, 60_000]), gap=gap, source_first=first,
        source_end_below_position=dice.random() < 0.1, counted=counted_up_to(end, dice),
    )  # fmt: skip


def counted_up_to(end: int | None, dice: random.Random) -> CountedRange | None:
    first = dice.randrange(1_000)
    return (
        dice.choice([None, CountedRange(first, end, end - first)]) if end and first < end else None
    )


def report(flow: Flow, dice: random.Random) -> None:
    now = milliseconds(timezone.now())
    topics, partitions = [], []
    for at in range(dice.randrange(1, 6)):
        name, count = f"t{at}", dice.randrange(1, 4)
        code = dice.choice(["", "", "", "not_described", "filtered", "deleted_on_source"])
        state: Any = {"": "syncing", "not_described": "faulted"}.get(code, "skipped")
        topics.append(
            TopicStatus(
                topic=name, remote_topic=f"east.{name}", state=state, reason="", partitions=count,
                code=code,
            )
        )  # fmt: skip
        if not code:
            partitions += [partition(name, number, dice, now) for number in range(count)]
    status = JobStatus(
        job=world.job(flow).pk, flow=flow.pk, generation=1, state="running", reason="",
        started_at=0, as_of=now, topics=tuple(topics), partitions=tuple(partitions),
        not_visible=dice.choice(["", "", "Grant DESCRIBE on the topics of east."]),
    )  # fmt: skip
    assert progress.ingest(flow=flow, job=flow.jobs.latest("pk"), status=status)


def owed(rows: list[dict[str, Any]], key: str) -> int:
    return sum(row["owed"][key] or 0 for row in rows)


@pytest.mark.parametrize("seed", range(12))
def test_every_statement_of_a_revision_adds_up(
    viewer: APIClient, people: dict[Role, User], seed: int
) -> None:
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    report(flow, random.Random(seed))

    (whole,) = viewer.get("/api/v1/flows/").json()["results"]
    path = f"/api/v1/flows/{flow.pk}"
    topics = viewer.get(f"{path}/topics/?page_size=200").json()["results"]
    partitions = viewer.get(f"{path}/partitions/?page_size=200").json()["results"]
    hidden = int(bool(whole["owed"]["not_visible"]))
    assert whole["owed"]["offsets"] == owed(topics, "offsets") == owed(partitions, "offsets")
    assert whole["owed"]["unknown_partitions"] == owed(topics, "unknown_partitions") + hidden

    for topic in topics:
        mine = [row for row in partitions if row["topic"] == topic["topic"]]
        assert topic["owed"]["offsets"] == owed(mine, "offsets")
        if mine:
            assert topic["owed"]["unknown_partitions"] == owed(mine, "unknown_partitions")
        check(topic)
    for row in partitions:
        check(row)
    check(whole)
    scraped(viewer, whole)
    scraped_parts(viewer, topics, partitions)
    browser = signed_in(people)
    assert figure(browser, f"/flows/{flow.pk}/", FACT) == written(whole["owed"])
    assert figure(browser, "/flows/", CELL) == written(whole["owed"])
    assert figure(browser, "/", CELL) == written(whole["owed"])
    for topic in topics:
        page = f"/flows/{flow.pk}/topics/{topic['topic']}/"
        assert figure(browser, page, FACT) == written(topic["owed"]), page
    if whole["owed"]["records"]:
        amount = f"{whole['owed']['records']:,} record"
        assert amount in browser.get("/").content.decode()
        assert amount in browser.get("/failovers/").content.decode()


@pytest.mark.parametrize("seed", range(10))
def test_the_lag_of_a_group_is_the_same_on_every_page(
    viewer: APIClient, people: dict[Role, User], seed: int
) -> None:
    dice = random.Random(seed)
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    for at in range(dice.randrange(1, 6)):
        for number in range(dice.randrange(1, 4)):
            lag = dice.choice([None, 0, dice.randrange(5_000)])
            GroupOffset.objects.create(
                flow=flow, group=f"g{at}", topic="orders", partition=number, source_offset=90,
                translated_offset=dice.choice([None, 80]), source_lag=lag, re_reads=0,
                sync_state=dice.choice(["in_sync", "moved", "failed", "excluded"]),
                as_of=timezone.now(),
            )  # fmt: skip
    browser = signed_in(people)
    rows = viewer.get("/api/v1/consumer-groups/").json()["results"]
    parts = viewer.get(f"/api/v1/flows/{flow.pk}/groups/?page_size=200").json()["results"]
    text = browser.get("/groups/").content.decode()
    for row in rows:
        mine = [
            part["source_lag"]
            for part in parts
            if part["group"] == row["group"] and part["sync_state"] != "excluded"
        ]
        known = [lag for lag in mine if lag is not None]
        assert row["least_lag"] == sum(known)
        assert row["lag"] == (sum(known) if mine and len(known) == len(mine) else None)
        lag = "–" if row["lag"] is None else f"{row['lag']:,}"  # noqa: RUF001
        if row["lag"] is None and known:
            lag = f"≥ {row['least_lag']:,}"
        line = text[text.index(f">{row['group']}</a>") :].partition("</tr>")[0]
        assert re.search(rf">\s*{lag}\s*<", line), row
        page = browser.get(f"/flows/{flow.pk}/group/?group={row['group']}").content.decode()
        assert re.search(rf">\s*{lag}\s*<", page), row


# A figure at the head of a page, and the first one in a table.
FACT = re.compile(r"<dt>Not replicated</dt><dd[^>]*>\s*<span title=\"[^\"]*\">([^<]*)</span>")
CELL = re.compile(r"<td class=\"number[^\"]*\">\s*<span title=\"[^\"]*\">([^<]*)</span>")


def signed_in(people: dict[Role, User]) -> Client:
    browser = Client()
    backend = "django.contrib.auth.backends.ModelBackend"
    browser.force_login(people[Role.VIEWER], backend=backend)
    return browser


def figure(browser: Client, path: str, where: re.Pattern[str]) -> str:
    found = where.search(browser.get(path).content.decode())
    assert found is not None, path
    return html.unescape(found[1])


def written(said: dict[str, Any]) -> str:
    """How a page writes what REST says."""
    if said["records"] is None:
        return "–"  # noqa: RUF001
    return ("≥ " if said["certainty"] == "at_least" else "") + f"{said['records']:,}"


def scraped_parts(
    viewer: APIClient, topics: list[dict[str, Any]], partitions: list[dict[str, Any]]
) -> None:
    """What a scrape says of topics and partitions is what REST says; unknown has no series."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    text = viewer.get("/metrics?partitions=1").content.decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            key = f"{labels.get('topic')}-{labels.get('partition', '')}".rstrip("-")
            found[sample.name][key] = sample.value
    copied = [row for row in topics if row["remote_topic"]]
    assert found["understudy_topic_owed_records"] == {
        row["topic"]: row["owed"]["offsets"] for row in copied
    }
    assert found["understudy_topic_unknown_partitions"] == {
        row["topic"]: row["owed"]["unknown_partitions"] for row in copied
    }
    assert found["understudy_partition_offset_lag_records"] == {
        f"{row['topic']}-{row['partition']}": row["owed"]["offsets"]
        for row in partitions
        if not row["owed"]["unknown_partitions"]
    }


def check(row: dict[str, Any]) -> None:
    """A statement never claims more than it knows."""
    said = row["owed"]
    assert (said["records"] is None) == (said["certainty"] == "unknown")
    if said["unknown_partitions"]:
        assert said["certainty"] in ("at_least", "unknown")
        assert row["offset_lag"] is None
    # Without a certainty beside it, a figure is no lower bound.
    if said["certainty"] in ("at_least", "unknown"):
        assert row["offset_lag"] is None
    if said["time_lag_certainty"] in ("at_least", "unknown"):
        assert row["time_lag_ms"] is None
    if said["certainty"] == "counted":
        assert said["records"] == 0
    if said["records"] is not None:
        assert said["records"] <= said["offsets"]


def scraped(viewer: APIClient, whole: dict[str, Any]) -> None:
    text = viewer.get("/metrics").content.decode()
    found = {
        sample.name: sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    said = whole["owed"]
    unknown = found["understudy_flow_unknown_partitions"].value
    assert unknown == said["unknown_partitions"]
    if said["records"] is None:
        assert "understudy_flow_owed_records" not in found
    else:
        sample = found["understudy_flow_owed_records"]
        assert (sample.value, sample.labels["certainty"]) == (said["records"], said["certainty"])
    # At the last read of the source, whose age is a metric of its own.
    assert ("understudy_flow_offset_lag_records" in found) == (not unknown)


def test_the_last_figures_of_a_silent_source_are_no_exact_ones(
    viewer: APIClient, people: dict[Role, User]
) -> None:
    """Without a certainty they are null; pages show the lower bound."""
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    world.topic(flow, "orders", offset_lag=7, time_lag_ms=5_000)
    world.partition(flow, offset_lag=7, time_lag_ms=5_000)
    path, browser = f"/api/v1/flows/{flow.pk}/", signed_in(people)
    lists = ("/api/v1/flows/", f"{path}topics/", f"{path}partitions/")
    details = (path, f"{path}topics/orders/")
    pages = (f"/flows/{flow.pk}/", f"/flows/{flow.pk}/topics/", f"/flows/{flow.pk}/topics/orders/")

    def figures() -> set[tuple[int | None, int | None]]:
        rows = [viewer.get(each).json()["results"][0] for each in lists]
        rows += [viewer.get(each).json() for each in details]
        rows += viewer.get("/api/v1/topology/").json()["flows"]
        return {(row["offset_lag"], row["time_lag_ms"]) for row in rows}

    # Fresh, however slow the machine is.
    world.silence(flow, seconds=-600)
    assert figures() == {(7, 5_000)}
    for page in pages:
        assert ">5 s</span>" in browser.get(page).content.decode(), page
    world.silence(flow, seconds=40)
    assert figures() == {(None, None)}
    said = viewer.get(path).json()["owed"]
    assert (said["records"], said["time_lag_ms"], said["time_lag_certainty"]) == (
        7,
        5_000,
        "at_least",
    )
    for page in (*pages, "/"):
        text = browser.get(page).content.decode()
        assert "≥ 5 s</span>" in text, page
        assert not re.search(r"at most 5 s|>5 s</span>", text), page

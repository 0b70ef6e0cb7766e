"""The tabs Gaps and Offsets: numbers, a decision with a confirm, a translation without Kafka."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.gaps.lost_ranges import remote_truncation, uncopyable
from mirrors.domain.offsets.runs import Run
from mirrors.models import Flow, Gap
from tests.mirrors.maps import keep_map
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


def test_a_gap_is_listed_and_decided_on_with_its_numbers_and_a_reason(
    flow: Flow, signed_in: As
) -> None:
    row = world.gap(flow)
    page, listed = f"/flows/{flow.pk}/gaps/{row.pk}/", f"/flows/{flow.pk}/gaps/"
    lead = f'{row.reason} <a href="{page}">Decide</a>'
    assert lead in signed_in("viewer").get(listed).content.decode()
    text = signed_in("viewer").get(page).content.decode()
    for part in (
        "They were deleted.",
        "resumes at offset 30",
        "20 offsets are skipped",
        "disabled",
    ):
        assert part in text
    digest = signed_in("viewer").get(page).context["digest"]
    body = {"choice": "accept", "reason": "Known and told.", "digest": digest}
    assert signed_in("viewer").post(page, body).status_code == 403
    operator = signed_in("operator")
    assert operator.post(page, {**body, "reason": " "}).status_code == 422
    assert operator.post(page, {**body, "digest": ""}).status_code == 409
    assert operator.post(page, {**body, "digest": "of other numbers"}).status_code == 409
    assert Gap.objects.get().state == "open"
    assert operator.post(page, body).status_code == 302
    after = Gap.objects.get()
    assert (after.state, after.decided_by, after.decided_why) == (
        "accepted",
        "the-operator",
        "Known and told.",
    )
    assert "Known and told." in operator.get(f"/flows/{flow.pk}/events/").content.decode()
    assert 'name="choice"' not in operator.get(page).content.decode()
    assert lead not in operator.get(listed).content.decode()


def test_a_gap_without_numbers_says_when_more_can_be_decided(flow: Flow, signed_in: As) -> None:
    facts = dataclasses.asdict(remote_truncation(30, 0, end=18, belongs=30))
    row = world.gap(flow, kind="remote_truncated", facts=facts, first_available=None)
    page = signed_in("operator").get(f"/flows/{flow.pk}/gaps/{row.pk}/").content.decode()
    assert page.count('name="choice"') == 1
    assert "Other choices need the offsets of the source" in page


def test_a_rejected_record_can_be_skipped_but_not_replicated_again(
    flow: Flow, signed_in: As
) -> None:
    facts = uncopyable("refused", 10, 0, behind=11)
    reason = "The record at orders-2 offset 10 was not copied: it is too large."
    row = world.gap(flow, kind="refused", reason=reason, facts=dataclasses.asdict(facts), count=1)
    flow.partitions.filter(topic="orders", partition=2).update(state="faulted", reason=reason)
    operator = signed_in("operator")
    page = operator.get(f"/flows/{flow.pk}/gaps/{row.pk}/").content.decode()
    assert 'value="restart"' not in page
    assert "Replication resumes at offset 11 of" in page
    assert "Skipped permanently: 1 offset." in page
    assert "First refused" in page
    link = f'{reason} <a href="/flows/{flow.pk}/gaps/?q=orders">Decide</a>'
    assert link in operator.get(f"/flows/{flow.pk}/partitions/").content.decode()


def test_a_partition_that_stopped_at_a_gap_links_to_the_decision(flow: Flow, signed_in: As) -> None:
    world.partition(flow, "stranded", state="gap", reason="It was cut.")
    world.topic(flow, "stranded", state="gap", reason="It was cut.")
    link = f'It was cut. <a href="/flows/{flow.pk}/gaps/?q=stranded">Decide</a>'
    for tab in ("", "topics/", "partitions/"):
        assert link in signed_in("viewer").get(f"/flows/{flow.pk}/{tab}").content.decode()


def test_an_offset_is_translated_on_its_tab_with_the_outcome_named(
    flow: Flow, signed_in: As
) -> None:
    keep_map(flow, "orders", 0, [Run(10, 0, 5), Run(17, 5, 3)], position=20, at_once=2)
    viewer = signed_in("viewer")
    page = f"/flows/{flow.pk}/offsets/"
    assert page in viewer.get(f"/flows/{flow.pk}/groups/").content.decode()
    for offset, downstream, outcome in ((12, 2, "exact"), (15, 5, "gap"), (25, 8, "ahead")):
        answer = viewer.get(page, {"topic": "orders", "partition": 0, "offset": offset})
        assert answer.status_code == 200
        found = answer.context["answer"]
        assert (found.downstream, found.outcome) == (downstream, outcome)
        assert f'data-state="{outcome}"' in answer.content.decode()
    wrong = viewer.get(page, {"topic": "", "partition": -1, "offset": "x"}).content.decode()
    assert world.error_at(wrong, "topic")
    assert world.error_at(wrong, "offset")

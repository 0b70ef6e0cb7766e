"""flows/{id}/gaps/ of a truncated remote partition: offsets of both sides, and a decision."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.offsets.runs import Run
from mirrors.models import Flow, Gap, PartitionMap, Role
from tests.api.test_gaps import Runner, decide, decisions, listed
from tests.mirrors.maps import keep_map

CUT = GapFacts(
    kind="remote_truncated", position=10, first=0, end=50, remote_end=18, remote_next=30
)  # fmt: skip


@pytest.fixture
def runner(flow: dict[str, Any]) -> Runner:
    return Runner(Flow.objects.get(pk=flow["id"]))


def test_it_names_what_the_target_lost_and_which_source_offsets_those_were(
    operator: APIClient, runner: Runner
) -> None:
    runner.says(CUT, None)
    [gap] = listed(operator, runner, kind="remote_truncated")
    assert (gap["remote_first"], gap["remote_last"], gap["count"]) == (18, 29, 12)
    assert (gap["position"], gap["first_lost"], gap["last_lost"]) == (10, None, None)
    # The map is seconds behind the runner.
    runs = [Run(0, 10, 3), Run(3, 14, 6), Run(9, 28, 1)]
    keep_map(runner.flow, "orders", 0, runs, position=10, at_once=1)
    runner.says(CUT, None)
    [gap] = listed(operator, runner)
    assert (gap["first_lost"], gap["last_lost"]) == (7, 9)
    # What was found stays when the map is another one.
    PartitionMap.objects.all().delete()
    runner.says(CUT, None)
    Gap.objects.update(opened_at=timezone.now() - timedelta(hours=1))
    runner.says(CUT, None)
    [gap] = listed(operator, runner)
    assert (gap["state"], gap["first_lost"], gap["last_lost"]) == ("open", 7, 9)
    told = operator.get(f"/api/v1/flows/{runner.flow.pk}/transitions/").json()["results"]
    assert "offsets 18 to 29 of the remote partition, 12 in total" in told[0]["why"]
    assert decide(operator, gap, digest=gap["digest"]).status_code == 200
    assert decisions(runner) == [(0, "accept", 0)]
    # Cut again before that was done: nobody decided on it.
    runner.says(dataclasses.replace(CUT, remote_end=12), None)
    [gap] = listed(operator, runner)
    assert (gap["state"], gap["remote_first"], gap["count"]) == ("open", 12, 18)


def test_its_page_says_what_each_choice_does(
    runner: Runner, client: Client, people: dict[Role, User]
) -> None:
    runner.says(CUT)
    client.force_login(people[Role.OPERATOR])
    page = client.get(f"/flows/{runner.flow.pk}/gaps/{Gap.objects.get().pk}/").content.decode()
    for words in (
        "First lost on the target",
        "Offsets lost there",
        "Replication resumes at offset 10",
        "are not replicated again. Records on",
        "A new offset map begins there.",
        "restarts at offset 0",
    ):
        assert words in page


def test_copies_whose_positions_the_target_lost_are_named_on_both_sides(
    operator: APIClient, runner: Runner, client: Client, people: dict[Role, User]
) -> None:
    lost = GapFacts(
        kind="positions_lost", position=3, first=0, end=50, remote_next=14, remote_copied=29
    )
    runs = [Run(0, 10, 3), Run(3, 14, 6), Run(9, 28, 1)]
    keep_map(runner.flow, "orders", 0, runs, position=10, at_once=1)
    runner.says(lost, None)
    [gap] = listed(operator, runner, kind="positions_lost")
    assert (gap["remote_first"], gap["remote_last"], gap["count"]) == (14, 28, 15)
    assert (gap["first_lost"], gap["last_lost"]) == (3, 9)
    client.force_login(people[Role.OPERATOR])
    page = client.get(f"/flows/{runner.flow.pk}/gaps/{gap['id']}/").content.decode()
    for words in (
        "First copied on the target",
        "Offsets copied there",
        "Replication resumes at offset 3",
        "are replicated again.",
        "A new offset map begins there.",
    ):
        assert words in page
    assert decide(operator, gap, digest=gap["digest"]).status_code == 200
    assert decisions(runner) == [(0, "accept", 0)]

"""flows/{id}/gaps/: opened and closed by a runner's reports, decided on by operators."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.domain.gaps.lost_ranges import GapFacts, uncopyable
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, TopicState, TopicStatus
from mirrors.models import Flow, Gap
from mirrors.services.clock import milliseconds
from mirrors.services.flows import jobs, progress
from tests.pages import world as rows

FACTS = GapFacts(kind="deleted", position=10, first=30, end=50)


class Runner:
    """Says of a flow's partitions what a runner would."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.position = 10
        self._job = rows.job(flow)
        self._now = milliseconds(timezone.now())

    def says(self, *gaps: GapFacts | None) -> None:
        """One partition after the other; None is one that is copied."""
        self._now += 1000
        partitions = tuple(self._row(number, gap) for number, gap in enumerate(gaps))
        topic = TopicStatus(
            topic="orders", remote_topic="p.orders", state="in_sync", reason="", partitions=2
        )
        status = JobStatus(
            job=self._job.pk, flow=self.flow.pk, generation=1, state="running", reason="",
            started_at=0, as_of=self._now, topics=(topic,), partitions=partitions,
        )  # fmt: skip
        self._job.refresh_from_db()
        assert progress.ingest(flow=self.flow, job=self._job, status=status)

    @staticmethod
    def _state(gap: GapFacts | None) -> TopicState:
        if gap is None:
            return "in_sync"
        return "gap" if gap.behind is None else "faulted"

    def _row(self, number: int, gap: GapFacts | None) -> PartitionStatus:
        return PartitionStatus(
            topic="orders", partition=number, remote_topic="p.orders",
            state=self._state(gap), reason="It was deleted." if gap else "",
            position=self.position, source_end=50, source_stable_end=50, time_lag_ms=0, lane="raw",
            as_of=self._now, gap=gap,
        )  # fmt: skip


@pytest.fixture
def runner(flow: dict[str, Any]) -> Runner:
    return Runner(Flow.objects.get(pk=flow["id"]))


def listed(client: APIClient, runner: Runner, **asked: str) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/flows/{runner.flow.pk}/gaps/", asked)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def decide(client: APIClient, gap: dict[str, Any], **body: str) -> Any:
    flow = Gap.objects.get(pk=gap["id"]).flow_id
    asked = {"choice": "accept", "reason": "known", **body}
    return client.post(f"/api/v1/flows/{flow}/gaps/{gap['id']}/decide/", asked)


def decisions(runner: Runner) -> list[tuple[int, str, int | None]]:
    """As they stand in the spec file."""
    flow = Flow.objects.get(pk=runner.flow.pk)
    spec = jobs.spec_of(flow=flow, job=rows.Job.objects.get(flow=flow, ended_at=None))
    return [(row.partition, row.choice, row.facts.first) for row in spec.decisions]


def test_a_gap_has_exact_numbers_and_closes_when_it_no_longer_exists(
    viewer: APIClient, runner: Runner
) -> None:
    runner.says(FACTS, None)
    [gap] = listed(viewer, runner)
    assert (gap["first_lost"], gap["last_lost"], gap["count"]) == (10, 29, 20)
    assert (gap["position"], gap["first_available"], gap["source_end"]) == (10, 30, 50)
    assert (gap["kind"], gap["state"], gap["partition"]) == ("deleted", "open", 0)
    runner.says(dataclasses.replace(FACTS, first=35), None)
    [gap] = listed(viewer, runner, state="open")
    assert (gap["last_lost"], gap["count"]) == (34, 25)
    runner.says(None, None)
    [gap] = listed(viewer, runner)
    assert (gap["state"], gap["closed_at"] is not None) == ("closed", True)
    assert "can read from the position" in gap["closed_why"]
    told = viewer.get(f"/api/v1/flows/{runner.flow.pk}/transitions/").json()["results"]
    assert [row["to"] for row in told[:2]] == ["gap: closed", "gap: opened"]
    assert "offsets 10 to 29, 20 in total" in told[1]["why"]


def test_a_refused_record_is_tried_again_until_it_crosses_or_is_passed_by(
    operator: APIClient, runner: Runner
) -> None:
    facts = uncopyable("refused", 10, 0, behind=11)
    runner.says(facts, facts)
    other, gap = listed(operator, runner)
    assert (gap["kind"], gap["first_lost"], gap["last_lost"], gap["count"]) == (
        "refused",
        10,
        10,
        1,
    )
    # It is tried again; while it is, nothing is known.
    runner.says(None, None)
    assert [row["closed_at"] for row in listed(operator, runner)] == [None, None]
    again = decide(operator, gap, choice="restart")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "in_the_way")
    assert decide(operator, gap, digest=gap["digest"]).status_code == 200
    runner.says(facts, facts)
    runner.says(None, None)
    assert decisions(runner) == [(0, "accept", None)]
    runner.position = 11
    runner.says(None, None)
    rows = {row["id"]: row for row in listed(operator, runner)}
    assert rows[gap["id"]]["closed_why"] == "Replication continued after it, as operator decided."
    assert rows[other["id"]]["closed_why"] == "It was replicated since."
    assert decisions(runner) == []


def test_the_next_refused_record_is_another_gap_however_soon_it_comes(
    operator: APIClient, runner: Runner
) -> None:
    runner.says(uncopyable("refused", 10, 0, behind=11))
    [gap] = listed(operator, runner)
    assert decide(operator, gap, digest=gap["digest"]).status_code == 200
    # Nothing was seen in between.
    runner.position = 11
    runner.says(uncopyable("refused", 11, 0, behind=12))
    new, old = listed(operator, runner)
    assert (old["state"], old["first_lost"], old["decided_by"]) == ("accepted", 10, "operator")
    assert old["closed_at"] is not None
    assert (new["state"], new["first_lost"], new["decided_by"]) == ("open", 11, "")
    assert decisions(runner) == []


def test_an_operator_accepts_and_the_runner_is_notified_once(
    viewer: APIClient, operator: APIClient, runner: Runner
) -> None:
    runner.says(FACTS, FACTS)
    _, gap = listed(operator, runner)
    assert decide(viewer, gap).status_code == 403
    assert decide(operator, gap, reason="").status_code == 400
    refused = decide(operator, gap, choice="skip")
    assert refused.status_code == 400
    assert '"skip" is not one of stop, accept, restart.' in refused.json()["error"]["message"]
    assert decide(operator, gap, choice="stop").json()["state"] == "open"
    assert decisions(runner) == []
    generation = Flow.objects.get(pk=runner.flow.pk).generation
    answer = decide(operator, gap, digest=gap["digest"])
    assert answer.status_code == 200, answer.json()
    assert (answer.json()["state"], answer.json()["decided_by"]) == ("accepted", "operator")
    assert decide(operator, gap).status_code == 409
    assert decisions(runner) == [(0, "accept", 30)]
    assert Flow.objects.get(pk=runner.flow.pk).generation == generation + 1
    # A person may read the end of the source rise; that is no other gap.
    runner.says(dataclasses.replace(FACTS, end=60), FACTS)
    assert decisions(runner) == [(0, "accept", 30)]
    runner.says(None, FACTS)
    other, gap = listed(viewer, runner)
    assert (other["state"], other["closed_at"]) == ("open", None)
    assert (gap["state"], gap["closed_why"]) == (
        "accepted",
        "Replication continued, as operator decided.",
    )
    assert decisions(runner) == []
    told = viewer.get(f"/api/v1/flows/{runner.flow.pk}/transitions/").json()["results"]
    assert ("gap: accept", "operator") in [(row["to"], row["who"]) for row in told]


def test_a_loss_after_the_decision_needs_another_decision(
    operator: APIClient, runner: Runner
) -> None:
    runner.says(FACTS)
    [gap] = listed(operator, runner)
    runner.says(dataclasses.replace(FACTS, first=31))
    refused = decide(operator, gap, digest=gap["digest"])
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "stale"
    [gap] = listed(operator, runner)
    assert decide(operator, gap, choice="restart", digest=gap["digest"]).status_code == 200
    assert decisions(runner) == [(0, "restart", 31)]
    runner.says(dataclasses.replace(FACTS, first=40))
    [gap] = listed(operator, runner)
    assert (gap["state"], gap["count"]) == ("open", 30)
    assert decisions(runner) == []


def test_a_gap_of_an_earlier_version_is_the_same_gap(operator: APIClient, runner: Runner) -> None:
    runner.says(FACTS)
    [gap] = listed(operator, runner)
    row = Gap.objects.get(pk=gap["id"])
    Gap.objects.update(facts={key: said for key, said in row.facts.items() if key != "behind"})
    assert listed(operator, runner)[0]["digest"] == gap["digest"]
    assert decide(operator, gap, digest=gap["digest"]).status_code == 200
    runner.says(FACTS)
    assert listed(operator, runner)[0]["state"] == "accepted"
    # One without any facts can be looked at.
    Gap.objects.update(facts={})
    assert listed(operator, runner)[0]["id"] == gap["id"]


def test_a_gap_of_which_the_source_says_nothing_cannot_be_accepted(
    operator: APIClient, runner: Runner
) -> None:
    runner.says(GapFacts(kind="recreated", position=10, first=None, end=None, was="a", now="b"))
    [gap] = listed(operator, runner)
    assert (gap["count"], gap["was"], gap["now"]) == (None, "a", "b")
    refused = decide(operator, gap)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "unknown")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        # Copying would go on at the position, but nobody knows whether the source still has it.
        (GapFacts(kind="remote_missing", position=10, first=None, end=None), "not known yet"),
        # Two unclean elections in a row.
        (GapFacts(kind="truncated", position=10, first=0, end=10), "Choose restart"),
    ],
)
def test_where_nobody_can_say_from_where_nothing_is_accepted(
    operator: APIClient, runner: Runner, facts: GapFacts, words: str
) -> None:
    runner.says(facts)
    [gap] = listed(operator, runner)
    refused = decide(operator, gap)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "unknown")
    assert words in refused.json()["error"]["message"]
    assert decisions(runner) == []


def test_the_numbers_of_a_source_that_does_not_answer_stay_and_so_does_a_decision(
    operator: APIClient, runner: Runner
) -> None:
    runner.says(FACTS, None)
    [gap] = listed(operator, runner)
    digest = gap["digest"]
    assert decide(operator, gap, digest=digest).status_code == 200
    runner.says(dataclasses.replace(FACTS, first=None, end=None), None)
    [gap] = listed(operator, runner)
    assert (gap["state"], gap["closed_at"], gap["digest"]) == ("accepted", None, digest)
    assert (gap["first_available"], gap["source_end"], gap["count"]) == (30, 50, 20)
    # It is another gap by now, whatever the source has.
    runner.says(dataclasses.replace(FACTS, first=None, end=None, position=12), None)
    [gap] = listed(operator, runner)
    assert (gap["state"], gap["first_available"]) == ("open", None)

"""A failover and a failback of a flow whose rule masks, removes a field and drops 30 %: judged.

The judge reads both clusters with librdkafka alone. A record has an id of its own; a copy is right
if it is the rule's result for that id, computed here in Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.models import FailoverRun, Flow, RuleStart, Runner
from mirrors.services.errors import Conflict
from mirrors.services.failback import groups as failback_groups
from mirrors.services.failover.simulation import simulator
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.spark.application_stage import moved, observed, runner_row
from tests.spark.failback_stage import PARTITIONS, WHO, FailbackFlows
from tests.spark.lab import Lab
from tests.spark.reading import messages
from tests.spark.round_trip import IDENTITY, decide

pytestmark = pytest.mark.django_db(transaction=True)

RULE = TransformRule(
    topics=r".*\.orders",
    where="cast(get_json_object(cast(value as string), '$.id') as int) % 10 >= 3",
    value="json_mask(json_drop(value, 'card'), '***', 'name')",
)
RECORDS = 90
# Of the standby's own, in each partition.
OWN = 5
# First, inside and after the dropped ones at the beginning, at kept and dropped ones, at the end.
OFFSETS = (0, 2, 3, 4, 11, 13, 47, 50, 79, 82, RECORDS - 1, RECORDS)


def record(partition: int, number: int) -> str:
    content = {"id": number, "name": f"Ada {partition}", "card": {"number": "4111"}}
    return json.dumps(content)


def kept(partition: int, start: int = 0, end: int = RECORDS) -> list[str]:
    """What the rule makes of the records of this range."""
    return [
        json.dumps({"id": number, "name": "***"}, separators=(",", ":"))
        for number in range(start, end)
        if number % 10 >= 3
    ]


@pytest.fixture
def ways(lab: Lab) -> Iterator[list[FailbackFlows]]:
    found: list[FailbackFlows] = []
    yield found
    for way in found:
        way.close()


@pytest.fixture(params=["default names", "identity"])
def way(request: pytest.FixtureRequest, lab: Lab, ways: list[FailbackFlows]) -> FailbackFlows:
    names = IDENTITY if request.param == "identity" else {}
    way = FailbackFlows(lab, **{TRANSFORMS: format_rules([RULE])}, **names)
    ways.append(way)
    return way


@pytest.fixture
def runner(way: FailbackFlows, settings: Any) -> Runner:
    return runner_row(way, settings)


def remote_of(way: FailbackFlows) -> str:
    is_identity = "replication.policy.class" in way.there.properties
    return way.topic if is_identity else f"{way.clusters['a'].alias}.{way.topic}"


def offsets_of(way: FailbackFlows) -> Mapping[str, tuple[int, int]]:
    """Each group's offset in each partition of the source."""
    return {
        f"{way.name}.g{number}": (offset, OFFSETS[-1 - number])
        for number, offset in enumerate(OFFSETS)
    }


@pytest.mark.timeout(600)
def test_every_group_resumes_at_the_right_record_there_and_back(
    way: FailbackFlows,
    runner: Runner,
    receiver: Receiver,  # noqa: F811
) -> None:
    topic, remote = way.topic, remote_of(way)
    for part in range(PARTITIONS):
        way.write("a", topic, [record(part, number) for number in range(RECORDS)], part)
    for group, offsets in offsets_of(way).items():
        way.stand("a", group, {(topic, part): at for part, at in enumerate(offsets)})
    way.run(way.there)
    # Spark loads its SQL classes for the first slice with rules.
    way.settled(way.there, "a", topic, seconds=150)
    assert way.read("b", remote) == [kept(part) for part in range(PARTITIONS)]
    observed(way, way.there, receiver, [topic])

    run = moved(way, way.there, receiver, kind="switchover", scope=None)
    assert _untrue_rows(way, run) == []
    assert run.simulation is not None
    assert run.simulation.verification == "verified", run.simulation.verification_reason
    assert _wrong_groups(way, "b", remote) == []

    # Orphans, some of which the rule drops, and records of the standby's own.
    for part in range(PARTITIONS):
        way.write("a", topic, [record(part, n) for n in range(RECORDS, RECORDS + 6)], part)
    if remote != topic:
        way.make("b", topic)
    for part in range(PARTITIONS):
        way.write("b", topic, [f"b{part}-{number}" for number in range(OWN)], part)
    failback = way.go_back()
    with pytest.raises(Conflict, match=r"rule 1 of .* filters or changes those of .*orders"):
        decide(failback, "replay", 0)
    for part in range(PARTITIONS):
        decide(failback, "drop", part)
    back = failback.reverse
    assert back is not None
    way.run(back)
    way.settled(back, "b", topic)
    rows = failback_groups.fail_back_groups(run_id=failback.pk, act=True)
    assert {row["state"] for row in rows} <= {"moved", "in_sync"}, rows
    assert _wrong_groups(way, "a", topic) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["default names"], indirect=True)
def test_a_simulation_compares_after_the_rule_and_says_why_when_it_cannot(
    way: FailbackFlows,
    runner: Runner,
    receiver: Receiver,  # noqa: F811
) -> None:
    topic, remote = way.topic, remote_of(way)
    way.write("a", topic, [record(0, number) for number in range(RECORDS)])
    for group, offset in {"near": 85, "far": 0}.items():
        way.stand("a", f"{way.name}.{group}", {(topic, 0): offset})
    way.run(way.there)
    way.settled(way.there, "a", topic, seconds=150)
    observed(way, way.there, receiver, [topic])
    found = _simulated(way)
    assert {group: row["verdict"] for group, row in found.items()} == {
        "near": "proven",
        "far": "proven",
    }
    assert found["near"]["reason"].startswith("after rule 1, the next ")

    # Another program's record is among the next ones of one group.
    way.stop(way.there)
    way.write("b", remote, [record(0, 8)])
    way.write("a", topic, [record(0, number) for number in range(RECORDS, RECORDS + 10)])
    way.run(way.there)
    way.settled(way.there, "a", topic, seconds=150)
    found = _simulated(way)
    assert {group: row["verdict"] for group, row in found.items()} == {
        "near": "differs",
        "far": "proven",
    }

    Flow.objects.filter(pk=way.there.pk).update(rules_known=0)
    found = _simulated(way)
    assert {row["verdict"] for row in found.values()} == {"unproven"}
    assert "rule 1 was changed, and the runner has not reported" in found["near"]["reason"]
    Flow.objects.filter(pk=way.there.pk).update(rules_known=way.there.generation)
    start = {"topic": topic, "partition": 0, "when": timezone.now()}
    RuleStart.objects.create(flow=way.there, offset=80, **start)
    found = _simulated(way)
    assert {group: row["verdict"] for group, row in found.items()} == {
        "near": "differs",
        "far": "unproven",
    }
    assert "before offset 80 may have been copied with another rule" in found["far"]["reason"]
    RuleStart.objects.all().delete()

    Runner.objects.update(state="stopped")
    way.there.refresh_from_db()
    found = _simulated(way)
    for row in found.values():
        assert row["verdict"] == "unproven"
        assert row["reason"].endswith(f"the runner {runner.name} does not run")


def _simulated(way: FailbackFlows) -> dict[str, dict[str, Any]]:
    """The rows of partition 0 by group."""
    run = simulator.request_simulation(flow=Flow.objects.get(pk=way.there.pk), who=WHO)
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    rows = run.result["partitions"]
    return {row["group"].partition(".")[2]: row for row in rows if row["partition"] == 0}


def _untrue_rows(way: FailbackFlows, run: FailoverRun) -> list[object]:
    """Rows of the simulation that the run was based on which the judge's own count contradicts."""
    assert run.simulation is not None
    rows = run.simulation.result["partitions"]
    assert len(rows) == len(OFFSETS) * PARTITIONS
    found = []
    for row in rows:
        offset = offsets_of(way)[row["group"]][row["partition"]]
        rest = len(kept(row["partition"], offset))
        is_true = (row["loss"], row["re_reads"]) == (0, 0) and "rule 1" in row["reason"]
        is_true = is_true and (row["verdict"], row["skipped"]) == ("proven", 0)
        # Offsets: the last one is the marker of a transaction.
        if not is_true or not rest <= row["waiting"] <= rest + 1:
            found.append((offset, rest, row))
    return found


def _wrong_groups(way: FailbackFlows, side: str, topic: str) -> list[object]:
    """Groups that would skip or re-read a replicated record that the rule keeps."""
    found: list[object] = []
    there: dict[int, list[tuple[int, str]]] = {}
    for part, message in messages(way.at[side], topic):
        rows = there.setdefault(part, [])
        if message is not None:
            rows.append((message.offset() or 0, (message.value() or b"").decode()))
    for group, offsets in offsets_of(way).items():
        for part, at in enumerate(way.stands(side, group, topic)):
            rest = [text for offset, text in there[part] if 0 <= at <= offset]
            own = [text for text in rest if text.startswith("b")]
            copied = [text for text in map(_as_kept, rest) if text is not None]
            expected = kept(part, offsets[part])
            if copied != expected or (side == "a" and own and len(own) != OWN):
                found.append((group, part, offsets[part], at, len(copied), len(expected)))
    return found


def _as_kept(text: str) -> str | None:
    """A record of the source as the rule leaves it; None for others, and if it drops it."""
    if text.startswith("b"):
        return None
    number = json.loads(text)["id"]
    # Orphans were dropped by decision.
    is_kept = number % 10 >= 3 and number < RECORDS
    return kept(0, number, number + 1)[0] if is_kept else None

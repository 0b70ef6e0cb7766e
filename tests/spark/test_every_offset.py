"""The offset map with holes of all kinds: for every source offset, equal to a scan of the log.

Aborted and open transactions, compaction before and after copying, deleted records, gaps that were
accepted, partitions that are added, another number of slices, and kill -9 of workers and of the
runner; two flows copy the same topics, exactly once and at least once. Both logs are read by
confluent-kafka, records are identified by their numbers, and each offset is asked of the topic of
runs, of the index (as it grew, and rebuilt) and of `POST offsets/translate/`.

UNDERSTUDY_MAP_ROUNDS and UNDERSTUDY_MAP_SEEDS make the long form (`make test-soak`) longer.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.models import Flow as Row
from mirrors.models import PartitionMap, Role, RunIndex
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets
from mirrors.services.users import ensure_person
from tests.api.conftest import client_of
from tests.spark.lab import Lab
from tests.spark.nasty_acts import AdverseTopics, IndexedFlow
from tests.spark.scanned_logs import Answers, library_answers, scans

ROUNDS = int(os.environ.get("UNDERSTUDY_MAP_ROUNDS", "3"))
SEEDS = int(os.environ.get("UNDERSTUDY_MAP_SEEDS", "5"))
AT_ONCE = 10_000
pytestmark = [pytest.mark.django_db]


def judge(nasty: AdverseTopics, copying: IndexedFlow, ends: dict[TopicPartition, int]) -> list[str]:
    deaths = 0 if copying.exactly_once else nasty.figures["workers killed"]
    known = scans(copying.flow, nasty.written, ends, {nasty.thin}, deaths)
    library, runs = library_answers(copying.flow, ends)
    said = {
        "the topic": library,
        "the index": index_answers(copying.row, ends),
        "REST": rest_answers(copying.row, ends),
    }
    RunIndex.objects.filter(flow=copying.row).delete()
    PartitionMap.objects.filter(flow=copying.row).delete()
    refresh_index(flow=copying.row)
    said["the rebuilt index"] = index_answers(copying.row, ends)
    wrong = []
    for scan in known:
        wrong += scan.wrong_copies(nasty.may_lack(scan.tp))
        for who, answers in said.items():
            wrong += [f"{who}: {words}" for words in scan.wrong_answers(answers[scan.tp])]
    figures = Counter(outcome for answers in library.values() for _, outcome in answers)
    figures["runs"] = runs
    tell(nasty, copying, sum((scan.figures() for scan in known), figures))
    return wrong


def tell(nasty: AdverseTopics, copying: IndexedFlow, figures: Counter[str]) -> None:
    words = ", ".join(f"{what}: {count}" for what, count in sorted(figures.items()))
    print(f"{copying.flow.job.properties['delivery']}: {words}")  # noqa: T201
    nasty.figures += Counter({f"all {what}": count for what, count in figures.items()})


def index_answers(row: Row, ends: dict[TopicPartition, int]) -> dict[TopicPartition, Answers]:
    found = translate_offsets(flow=row, partitions={at: range(end + 2) for at, end in ends.items()})
    return {
        tp: [(answer.downstream, answer.outcome) for answer in answers]
        for tp, answers in found.items()
    }


def rest_answers(row: Row, ends: dict[TopicPartition, int]) -> dict[TopicPartition, Answers]:
    ensure_person(username="reader", password=None, role=Role.VIEWER)
    client = client_of("reader")
    asked = [
        {"topic": topic, "partition": partition, "offset": at}
        for (topic, partition), end in ends.items()
        for at in range(end + 2)
    ]
    found: dict[TopicPartition, list[tuple[int | None, str]]] = {}
    for start in range(0, len(asked), AT_ONCE):
        body = {"flow": row.pk, "offsets": asked[start : start + AT_ONCE]}
        answer = client.post("/api/v1/offsets/translate/", body)
        assert answer.status_code == 200, answer.json()
        for one in answer.json()["offsets"]:
            place = found.setdefault((one["topic"], one["partition"]), [])
            place.append((one["downstream_offset"], one["outcome"]))
    return dict(found)


@pytest.mark.timeout(400 + ROUNDS * 200)
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [
        pytest.param(1, 1, id="short"),
        *(
            pytest.param(seed, ROUNDS, id=f"seed {seed}", marks=pytest.mark.soak)
            for seed in range(2, 2 + SEEDS)
        ),
    ],
)
def test_every_source_offset_is_mapped_as_a_scan_of_both_logs_says(
    lab: Lab, seed: int, rounds: int
) -> None:
    nasty = AdverseTopics(lab, seed)
    with nasty.written:
        nasty.play(rounds)
    ends = nasty.settle()
    wrong = [
        f"{copying.flow.job.properties['delivery']}, {words}"
        for copying in nasty.flows
        for words in judge(nasty, copying, ends)
    ]
    print(dict(nasty.figures))  # noqa: T201
    assert wrong == []
    assert nasty.figures["all gone before they were copied"] > 0
    assert nasty.figures["all gone after they were copied"] > 0

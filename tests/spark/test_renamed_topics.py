"""A renamed topic between real brokers: copied, refused, failed over, and given its name back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrors.models import Flow
from mirrors.services.failover.plan_inputs import read_plan_inputs
from mirrors.services.flows.commands import stop_flow
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.spark.failback_stage import WHO, FailbackFlows
from tests.spark.lab import Lab
from tests.spark.round_trip import numbered, there_and_back_again

pytestmark = pytest.mark.django_db(transaction=True)

RULE = {"topic.rename": r"(w[0-9a-f]+)\.(.*) -> west-$1_$2"}


@pytest.fixture
def ways(lab: Lab) -> Iterator[list[FailbackFlows]]:
    found: list[FailbackFlows] = []
    yield found
    for way in found:
        way.close()


def test_both_sides_of_a_renamed_topic_end_as_the_union_minus_what_was_dropped(
    lab: Lab,
    ways: list[FailbackFlows],
    receiver: Receiver,  # noqa: F811
) -> None:
    way = FailbackFlows(lab, **RULE)
    ways.append(way)
    remote = f"west-{way.name}_orders"
    way.written["b"] = remote
    there_and_back_again(way, receiver)
    back = Flow.objects.get(source=way.clusters["b"], target=way.clusters["a"])
    assert back.properties["topic.rename"] == rf"{remote} -> {way.name}\.orders".replace("\\", "")
    assert remote in back.properties["topics"].split(",")
    assert f"{way.clusters['b'].alias}.{remote}" not in lab.on_source.list_topics(timeout=20).topics


def test_offsets_are_translated_and_a_later_topic_of_the_same_name_is_not_replicated(
    lab: Lab, ways: list[FailbackFlows]
) -> None:
    way = FailbackFlows(lab, **{"topic.rename": r"(w[0-9a-f]+)\.(.*?)(-v2)? -> $1_$2"})
    ways.append(way)
    remote = f"{way.name}_orders"
    way.write("a", way.topic, numbered("a", 0, 20))
    handle = way.run(way.there)
    way.settled(way.there, "a", way.topic)
    second = lab.create(f"{way.name}.orders-v2", 2)
    way.write("a", second, numbered("second", 0, 3))
    found = handle.wait(
        lambda status: next((row for row in status.topics if row.topic == second), None)
    )
    row = next(row for row in found.topics if row.topic == second)
    assert (row.state, row.code) == ("faulted", "cannot_be_created")
    assert (
        f"{remote} is the remote topic of {way.topic}: their records would be mixed" in row.reason
    )
    way.write("a", way.topic, numbered("later", 0, 3))
    way.settled(way.there, "a", way.topic)
    way.stop(way.there)
    assert way.read("b", remote)[0] == [*numbered("a", 0, 20), *numbered("later", 0, 3)]
    refresh_index(flow=way.there)
    (answer,) = translate_offsets(flow=way.there, partitions={(way.topic, 0): [7]})[way.topic, 0]
    assert way.rest_from("b", remote, 0, answer.downstream or 0)[0] == "a0-7"
    stop_flow(flow=way.there, who=WHO)
    way.there.refresh_from_db()
    inputs = read_plan_inputs(
        flow=way.there, spec=way.there.spec, groups=[], now=0, tick=lambda: None
    )
    names = {row.topic: row.remote_topic for row in inputs.picture.partitions}
    assert names[way.topic] == remote

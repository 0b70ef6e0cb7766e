"""A run without its source, and what its fence and plan say of topics without ACLs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from django.utils import timezone

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.failover.plan import plan_failover
from mirrors.kafka.admin.client_fence import ClientFence, preserve_open_access
from mirrors.models import FailoverRun, FailoverStep
from mirrors.models import GroupOffset as GroupRow
from mirrors.services.clock import milliseconds
from mirrors.services.failover.plan_inputs import read_plan_inputs
from mirrors.services.failover.runbook.context import Context
from mirrors.services.failover.runbook.steps import loss_recount
from mirrors.services.failover.runbook.steps.fence import FENCE
from tests.groups.world import World
from tests.mirrors.switchover import (
    begin,
    copied,
    finish,
    group_of,
    simulated,
)
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.pages import world as made
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def mortal(tmp_path: Path, guard: Guard) -> Iterator[KafkaBroker]:
    """A source of this test's own, to be killed; it lets in everybody where there is no rule."""
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    broker = KafkaBroker(
        tmp_path,
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
        properties=rules,
    )
    yield broker.start()
    broker.kill()


def may_write(side: Side, topic: str) -> bool:
    told: list[bool] = []
    writer = Producer({"bootstrap.servers": side.spec.bootstrap_servers, "log_level": 0})
    with contextlib.suppress(KafkaException):  # the client knows by then that it may not
        writer.produce(
            topic, b"v", partition=0, on_delivery=lambda error, _: told.append(error is None)
        )
    writer.flush(20)
    return told == [True]


def until(is_so: Callable[[], bool]) -> None:
    """The answer comes before the broker has heard of a rule."""
    limit = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.05)


def a_fence_stops_writers_and_nobody_else(world: World, topic: str) -> None:
    """Where no rule is, all is open: the first rule must not shut out readers."""
    source, other = world.copy.source, unique("other")
    source.make(other)
    run = FailoverRun.objects.create(
        flow=world.flow, kind="switchover", mark="open", requested_by="ann",
        plan={"partitions": [{"topic": topic, "partition": 0}], "places": []},
    )  # fmt: skip
    FailoverStep.objects.create(
        run=run, number=1, name="detect", does="See", result={"source_answers": True}
    )
    row = FailoverStep.objects.create(run=run, number=3, name="fence_producers", does="Fence")
    spec = world.flow.spec
    context = Context(run=run, flow=world.flow, spec=spec, row=row, alive=lambda: None)
    # Nobody says whether it is open, so nothing is closed behind anybody's back.
    outcome = FENCE.act(context)
    assert outcome is not None
    assert (outcome.what, "could lock out readers" in outcome.words) == ("person", True)
    assert may_write(source, topic)
    with ClientFence(spec.source, client_id="test") as rules:
        rules.create_rules(preserve_open_access([topic], [])).raise_first()
    before = len(source.read(topic))
    assert FENCE.act(context) is None
    until(lambda: not may_write(source, topic))
    assert len(source.read(topic)) >= before > 0
    assert may_write(source, other)
    assert "1 ACL " in FENCE.undo(context)
    until(lambda: may_write(source, topic))
    run.delete()


def the_plan_names_the_topics_that_no_rule_covers(world: World, topic: str) -> None:
    """Before anybody makes the first rule, which would shut out their readers."""
    seen = read_plan_inputs(
        flow=world.flow,
        spec=world.flow.spec,
        groups=[group_of(world)],
        now=milliseconds(timezone.now()),
        tick=lambda: None,
    )
    (warning,) = [row for row in plan_failover(seen.picture).warnings if row.code == "open_topics"]
    assert topic in warning.sentence
    assert "So the fence adds no ACL, and the run uses the webhook instead." in warning.sentence


def test_a_failover_with_the_source_killed_goes_on_at_exactly_the_right_record_and_told_the_loss(
    mortal: KafkaBroker,
    backup: str,
    receiver: Receiver,  # noqa: F811
) -> None:
    sides = Side("one", mortal.bootstrap), Side(unique("two"), backup)
    world = World.make(*sides, groups=unique("app") + ".*")
    hooks = {"failover.start.consumers": "webhook", "failover.redirect.producers": "webhook"}
    world.flow.properties |= {**hooks, "failover.webhook.url": receiver.url}
    world.flow.save()
    topic, group = copied(world), group_of(world)
    truth = world.truth(topic)
    offset = sorted(truth)[15]
    position = world.copy.ends()[topic, 0]
    the_plan_names_the_topics_that_no_rule_covers(world, topic)
    a_fence_stops_writers_and_nobody_else(world, topic)
    world.fill(topic, 30)  # comes after the last copy
    world.fill_badly(topic, seed=11, batches=12)
    end = sides[0].ends(topic, committed=True)[0]
    figures = {"position": position, "source_end": end, "source_stable_end": end}
    made.partition(world.flow, topic, 0, **figures)
    seen = {"source_offset": offset, "sync_state": "waiting", "as_of": timezone.now()}
    GroupRow.objects.create(flow=world.flow, group=group, topic=topic, partition=0, **seen)
    # Nobody saw this: the group went on, and more was written.
    consumed = sorted(truth)[22]
    world.commit(group, topic, consumed)
    world.fill(topic, 10)
    lost = sum(record.offset >= position for record in sides[0].read(topic))
    for side in sides[:1]:
        side.close()
    mortal.kill()

    simulation = simulated(world)
    with pytest.raises(InvalidSettings, match="needs the source"):
        begin(world, "switchover", simulation=simulation.pk)
    run = finish(world, topic, begin(world, "failover", simulation=simulation.pk))

    assert run.state == "succeeded", run.reason
    steps = {step.name: step for step in run.steps.all()}
    assert steps["fence_producers"].state == "skipped"
    assert "does not respond" in steps["fence_producers"].reason
    (row,) = run.result["partitions"]
    assert (row["downstream_offset"], row["state"], row["re_reads"]) == (truth[offset], "moved", 0)
    totals = run.result["totals"]
    # Aborted records and markers have offsets too, so these are no lower bound.
    assert (totals["loss"], totals["loss_certainty"]) == (0, "at_least")
    assert f"({end - position} by offsets when" in run.reason
    assert totals["re_reads_certainty"] == "at_least"
    assert "How many records were not replicated is unknown" in run.reason
    assert "earlier" in run.reason
    assert totals["written_on_source"] is None
    assert (run.counted, run.verification) == (None, "not_verified")
    world.flow.refresh_from_db()
    assert (world.flow.desired_state, world.flow.observed_state) == ("stopped", "failed_over")
    again = sum(truth[offset] <= at for at in truth.values()) - sum(
        truth[consumed] <= at for at in truth.values()
    )
    the_loss_is_counted_once_the_source_is_back(run, mortal, lost=lost, again=again)
    sides[1].close()


def the_loss_is_counted_once_the_source_is_back(
    run: FailoverRun, mortal: KafkaBroker, *, lost: int, again: int
) -> None:
    """Beside the prediction, which stays; nothing is added while the source is away."""
    said = run.result
    assert loss_recount.recount(run_id=run.pk) is False
    mortal.start()
    source = run.flow.source
    FailoverRun.objects.filter(pk=run.pk).update(count_due_at=timezone.now())
    assert loss_recount.due_counts(now=timezone.now()) == []
    type(source).objects.filter(pk=source.pk).update(reachable=True)
    assert loss_recount.due_counts(now=timezone.now()) == [run.pk]
    assert loss_recount.recount(run_id=run.pk)
    run.refresh_from_db()
    assert run.counted is not None
    found = run.counted
    assert (found["loss"], found["loss_certainty"]) == (lost, "counted")
    assert (found["re_reads"], found["re_reads_certainty"]) == (again, "counted")
    assert (run.result, run.count_due_at) == (said, None)
    assert f"{lost} records were not replicated" in found["sentence"]
    assert loss_recount.due_counts(now=timezone.now()) == []

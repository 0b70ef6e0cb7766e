"""An empty database is rebuilt from the target alone: the same flow, its plan, its positions."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command
from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.standby.flow_definition import flow_body
from mirrors.domain.standby.records import Signer, backup_topic, to_records
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import (
    Cluster,
    FailoverRun,
    Flow,
    FlowPlan,
    PartitionMap,
    RunBlock,
    Runner,
    SigningKey,
    StandbyNote,
)
from mirrors.services import clusters
from mirrors.services.drills.certificates.signing_key import load_key
from mirrors.services.failover.simulation import simulator
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets
from mirrors.services.runners import settings
from mirrors.services.standby.backup import back_up_flow
from mirrors.services.standby.rebuild import rebuild
from mirrors.services.sync.scheduler import due_tasks, run_task
from tests.groups.world import World
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
SECRET = "KAFKA_TEST_REBUILD"


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    # An alias of its own: what other tests keep on the same cluster is not this flow's.
    pair = Side("one", primary), Side(unique("two"), backup)
    yield pair
    for side in pair:
        side.close()


@pytest.fixture
def world(
    sides: tuple[Side, Side], db: None, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv(SECRET, "a-very-secret-word")
    here = World.make(*sides, topics=unique("kept") + ".*")
    yield here
    with contextlib.suppress(UnderstudyError):
        here.delete(sides[1], backup_topic(here.alias))


def forget_all() -> None:
    Flow.objects.all().delete()
    Cluster.objects.all().delete()
    Runner.objects.all().delete()


def restored(world: World, name: str) -> Flow:
    rows = Flow.objects.select_related("source", "target", "runner")
    return next(flow for flow in rows if flow.name == name)


def test_the_flow_comes_back_from_its_target_with_plan_simulation_and_positions(
    world: World,
) -> None:
    topic = world.topic("kept", 2)
    world.fill(topic, 40)
    world.fill(topic, 15, partition=1)
    world.copy.copy()
    group = unique("app")
    write_offsets(world.copy.source.spec, group, {(topic, 0): GroupOffset(25)})
    flow = world.flow
    Cluster.objects.filter(pk=flow.source_id).update(properties={"request.timeout.ms": "7000"})
    now = timezone.now()
    change = {"kind": "topic config", "name": "x", "before": "1", "after": "2", "reason": "why"}
    FlowPlan.objects.create(
        flow=flow, state="ready", digest="d" * 64, changes=[change], since=now, as_of=now
    )
    flow = Flow.objects.select_related("source", "target", "runner").get(pk=flow.pk)
    run = simulator.request_simulation(flow=flow, groups=[group], who="ann")
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    assert world.do(back_up_flow).counts == {"written": 3}
    assert world.do(back_up_flow).counts == {"written": 0}
    refresh_index(flow=flow)
    partitions = {(topic, 0): {0, 7, 25, 39}, (topic, 1): {0, 14}}
    before = translate_offsets(flow=flow, partitions=partitions)
    spec, name = flow.spec, flow.name
    steps = [step.name for step in run.steps.all()]
    forget_all()

    out = io.StringIO()
    with pytest.raises(CommandError, match="Not confirmed: nothing was restored"):
        call_command("rebuild_from_kafka", bootstrap=spec.target.bootstrap_servers, stdout=out)
    assert not Flow.objects.exists()
    assert not Cluster.objects.exists()
    for side in (spec.source, spec.target):
        assert f"cluster {side.alias} at {side.bootstrap_servers} (PLAINTEXT)" in out.getvalue()
    call_command(
        "rebuild_from_kafka", bootstrap=spec.target.bootstrap_servers, yes=True, stdout=out
    )

    again = restored(world, name)
    assert again.spec == spec
    assert (again.desired_state, again.observed_state) == ("stopped", "draft")
    assert "Its desired state in the backup is running" in again.reason
    assert FlowPlan.objects.get(flow=again).changes == [change]
    back = FailoverRun.objects.get(flow=again)
    assert (back.plan, back.result, back.state) == (run.plan, run.result, run.state)
    assert back.requested_by == "ann"
    assert back.ended_at == run.ended_at
    assert [step.name for step in back.steps.all()] == steps
    positions = PartitionMap.objects.filter(flow=again).values_list("partition", "position")
    assert dict(positions) == {0: 40, 1: 15}
    assert RunBlock.objects.filter(map__flow=again).exists()
    assert translate_offsets(flow=again, partitions=partitions) == before
    assert f"{name} is restored, with the positions of 2 partitions" in out.getvalue()
    # What was copied already stays where it is: a new flow goes on behind it.
    world.fill(topic, 10)
    world.copy.copy()
    assert len(world.truth(topic)) == 50


def test_forged_and_unsigned_records_make_no_cluster(world: World, signing_key: Path) -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    Cluster.objects.filter(pk=world.flow.source_id).update(
        sasl_username="copier", sasl_password=f"env:{SECRET}", **login
    )
    flow = Flow.objects.select_related("source", "target").get(pk=world.flow.pk)
    world.flow = flow
    world.do(back_up_flow)
    spec, topic, name = flow.spec, backup_topic(world.alias), flow.name
    body = flow_body(spec, runner="", desired="running")
    evil = json.loads(json.dumps(body).replace(spec.source.bootstrap_servers, "6.6.6.6:9092"))
    theirs = Ed25519PrivateKey.generate()
    signer = Signer(public_key=theirs.public_key().public_bytes_raw(), sign=theirs.sign)
    forged = list(to_records(f"x{name}", "flow", evil, signer=signer, now=1))
    other = Signer(public_key=load_key().public_key().public_bytes_raw(), sign=theirs.sign)
    forged += to_records(f"y{name}", "flow", evil, signer=other, now=1)
    key, value = next(to_records(f"z{name}", "flow", evil, signer=signer, now=1))
    plain = json.loads(value)
    del plain["signature"]
    rows = [*forged, (key, json.dumps(plain).encode())]
    append(spec.target, topic, [NewRecord(key, value, 0) for key, value in rows], deadline_s=10)
    forget_all()
    done = rebuild(spec=spec.target, who="tester")
    assert name in done.flows
    assert not [flow for flow in done.flows if flow.startswith(("x", "y", "z"))]
    assert not Cluster.objects.filter(bootstrap_servers__contains="6.6.6.6").exists()
    told = " ".join(done.sentences)
    for words in ("not trusted here", "does not match its content", "it is not signed"):
        assert words in told

    # A host without the key restores with the public half only, and without it nothing.
    public = load_key().public_key().public_bytes_raw().hex()
    signing_key.unlink()
    forget_all()
    SigningKey.objects.all().delete()
    with pytest.raises(UnderstudyError, match=r"nothing that can be restored.*not trusted here"):
        rebuild(spec=spec.target, who="tester")
    assert not signing_key.exists()
    assert name in rebuild(spec=spec.target, who="tester", public_keys=[public]).flows
    with pytest.raises(CommandError, match="64 hexadecimal digits"):
        call_command(
            "rebuild_from_kafka",
            bootstrap=spec.target.bootstrap_servers,
            merge=True,
            public_key=["ab"],
        )


def test_another_key_signs_everything_again(world: World, signing_key: Path) -> None:
    assert world.do(back_up_flow).counts == {"written": 1}
    assert world.do(back_up_flow).counts == {"written": 0}
    signing_key.unlink()
    assert world.do(back_up_flow).counts == {"written": 1}


def test_a_secret_never_lies_on_the_standby_only_its_reference(world: World) -> None:
    Cluster.objects.filter(pk=world.flow.source_id).update(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="copier",
        sasl_password=f"env:{SECRET}",
    )
    world.flow = Flow.objects.select_related("source", "target").get(pk=world.flow.pk)
    assert world.do(back_up_flow).counts == {"written": 1}
    kept = [row.value or b"" for row in world.copy.target.read(backup_topic(world.alias))]
    assert any(f"env:{SECRET}".encode() in value for value in kept)
    assert not any(b"a-very-secret-word" in value for value in kept)


def test_a_database_with_rows_is_left_alone_unless_it_is_asked_to_merge(world: World) -> None:
    world.do(back_up_flow)
    target = world.copy.target.spec
    with pytest.raises(CommandError, match="This database is not empty: it has 1 flows"):
        call_command("rebuild_from_kafka", bootstrap=target.bootstrap_servers)
    name = world.flow.name
    world.flow.delete()
    other = ClusterSpec(alias="other", bootstrap_servers="127.0.0.1:9")
    clusters.create_cluster(spec=other, who="tester")
    Cluster.objects.filter(alias=world.alias).update(bootstrap_servers="127.0.0.1:9")
    done = rebuild(spec=target, who="tester", merge=True, start=True)
    assert name in done.flows
    again = restored(world, name)
    # What is registered is never changed, and said.
    assert again.source.bootstrap_servers == "127.0.0.1:9"
    assert any("another bootstrap_servers" in sentence for sentence in done.sentences)
    assert again.desired_state == "running"
    once_more = rebuild(spec=target, who="tester", merge=True)
    assert name not in once_more.flows
    assert any("already exists" in sentence for sentence in once_more.sentences)


def test_nothing_kept_and_nobody_there_are_said_in_a_sentence(
    world: World, sides: tuple[Side, Side]
) -> None:
    forget_all()
    with pytest.raises(CommandError, match="no broker can be reached"):
        call_command("rebuild_from_kafka", bootstrap="127.0.0.1:9", deadline=1.0)
    with pytest.raises(CommandError, match=r"standby at .* has no backup"):
        call_command("rebuild_from_kafka", bootstrap=sides[0].spec.bootstrap_servers)
    with pytest.raises(CommandError, match=r"No cluster nowhere is registered here"):
        call_command("rebuild_from_kafka", cluster="nowhere")
    with pytest.raises(CommandError, match="reference"):
        call_command("rebuild_from_kafka", bootstrap="127.0.0.1:9", sasl_password="hunter2")


def test_a_flow_that_rests_and_whose_source_is_dead_is_kept_all_the_same(world: World) -> None:
    settings.ensure_default_runner(who="tester")
    Cluster.objects.filter(pk=world.flow.source_id).update(reachable=False)
    Flow.objects.filter(pk=world.flow.pk).update(desired_state="stopped")
    now = timezone.now()
    assert (world.flow.pk, "standby") in due_tasks(now=now)
    assert run_task(flow_id=world.flow.pk, name="standby", now=now)
    note = StandbyNote.objects.get(flow=world.flow)
    assert set(note.digests) == {"flow"}
    Cluster.objects.filter(pk=world.flow.target_id).update(reachable=False)
    assert (world.flow.pk, "standby") not in due_tasks(now=now)

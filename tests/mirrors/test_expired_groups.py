"""Groups whose committed offset no longer exists resume at the log start and block no failover."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.admin.groups import delete_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.models import FailoverRun
from mirrors.services.failover import source_groups
from mirrors.services.failover.simulation import simulator, temporary_groups
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.survey import discover_groups
from mirrors.services.groups.target_offsets import move_groups
from tests.groups.world import World
from tests.mirrors.simulated_flow import simulate
from tests.mirrors.switchover import NO_HOOKS, carry_out
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
KEPT_FROM, ALL = 60, 100


@pytest.fixture
def world(sides: tuple[Side, Side]) -> World:
    here = World.make(*sides, groups=unique("app") + ".*")
    here.flow.properties |= NO_HOOKS
    here.flow.save()
    return here


@pytest.fixture
def topic(world: World) -> str:
    """A hundred records, all copied; the source has deleted the first sixty."""
    name = world.topic("orders", 2)
    world.fill(name, ALL)
    world.copy.copy()
    delete_before(world.copy.source, name, KEPT_FROM)
    return name


def delete_before(side: Side, topic: str, offset: int) -> None:
    with Admin(side.spec) as admin:
        admin.delete_records({(topic, 0): offset}).raise_first()


def group(world: World, stem: str, topic: str, offset: int) -> str:
    name = str(world.flow.properties["groups"]).removesuffix(".*") + stem
    world.commit(name, topic, offset)
    return name


def found(run: FailoverRun) -> dict[str, dict[str, Any]]:
    assert run.state == "succeeded", run.reason
    return {row["group"]: row for row in run.result["partitions"]}


def test_an_expired_group_resumes_at_the_log_start_and_all_others_are_proven(
    world: World, topic: str
) -> None:
    old, good = group(world, "old", topic, 10), group(world, "good", topic, 80)

    run = simulate(world.flow)

    rows = found(run)
    assert (rows[good]["verdict"], rows[good]["downstream_offset"]) == ("proven", 80)
    assert (rows[old]["verdict"], rows[old]["outcome"]) == ("proven", "expired")
    # The target still holds everything, so what the group has read is there again.
    assert (rows[old]["downstream_offset"], rows[old]["first_offset"]) == (0, 0)
    assert (rows[old]["re_reads"], rows[old]["skipped"]) == (10, 0)
    assert "auto.offset.reset" in rows[old]["reason"]
    assert run.plan["blockers"] == []
    assert [row["where"] for row in run.plan["warnings"] if row["code"] == "expired"] == [
        f"{old} in {topic}-0"
    ]
    assert run.verification == "verified", run.verification_reason


@pytest.mark.parametrize(
    ("target_start", "resumes", "skipped", "verdict"),
    [
        (5, 5, 0, "proven"),
        (40, 40, 0, "proven"),
        (70, 70, 10, "unproven"),
        (100, 100, 40, "unproven"),
    ],
)
def test_records_that_the_target_deleted_count_as_skipped_where_the_source_still_holds_them(
    world: World, topic: str, target_start: int, resumes: int, skipped: int, verdict: str
) -> None:
    old = group(world, "old", topic, 10)
    delete_before(world.copy.target, world.remote(topic), target_start)
    row = found(simulate(world.flow))[old]
    assert (row["downstream_offset"], row["outcome"]) == (resumes, "expired")
    assert (row["verdict"], row["skipped"]) == (verdict, skipped)
    assert row["re_reads"] == max(0, 10 - target_start)


def test_a_group_that_the_source_could_still_serve_says_what_the_target_has_deleted(
    world: World, topic: str
) -> None:
    slow, good = group(world, "slow", topic, 65), group(world, "good", topic, 90)
    delete_before(world.copy.target, world.remote(topic), 80)
    rows = found(simulate(world.flow))
    assert (rows[slow]["outcome"], rows[slow]["downstream_offset"]) == ("expired", 80)
    assert (rows[slow]["verdict"], rows[slow]["skipped"]) == ("unproven", 15)
    assert rows[good]["verdict"] == "proven"


def test_an_offset_beyond_the_end_resumes_at_the_log_start_and_skips_nothing(
    world: World, topic: str
) -> None:
    beyond, good = group(world, "beyond", topic, ALL + 50), group(world, "good", topic, 80)
    rows = found(simulate(world.flow))
    assert (rows[beyond]["outcome"], rows[beyond]["downstream_offset"]) == ("expired", 0)
    assert rows[beyond]["re_reads"] is None
    assert "truncated or recreated" in rows[beyond]["reason"]
    assert rows[good]["verdict"] == "proven"


def test_a_group_whose_offset_was_deleted_is_named_and_blocks_nobody(
    world: World, topic: str
) -> None:
    forgot, good = group(world, "forgot", topic, 70), group(world, "good", topic, 80)
    world.do(emit_checkpoints)
    delete_offsets(world.copy.source.spec, forgot, {(topic, 0)}, deadline_s=10).raise_first()
    run = simulate(world.flow)
    assert set(found(run)) == {good}
    assert run.plan["blockers"] == []
    (told,) = [row for row in run.plan["warnings"] if row["code"] == "no_offset"]
    assert told["where"] == f"{forgot} in {topic}-0"
    assert run.verification == "verified"


def test_the_group_offset_task_puts_it_there_once_and_never_back(world: World, topic: str) -> None:
    world.set(sync_group_offsets_enabled="true")
    old = group(world, "old", topic, 10)
    world.do(move_groups)
    assert world.stands(old, topic).offset == 0
    (row,) = world.rows(group=old)
    assert (row.outcome, row.translated_offset) == ("expired", 0)
    # What was put right while the offset existed is not undone because it has expired since.
    slow = group(world, "slow", topic, 70)
    world.do(discover_groups)
    world.do(move_groups)
    assert world.stands(slow, topic).offset == 70
    delete_before(world.copy.source, topic, 90)
    world.do(move_groups)
    assert world.stands(slow, topic).offset == 70
    (row,) = world.rows(group=slow)
    assert (row.sync_state, row.outcome) == ("in_sync", "expired")
    world.do(emit_checkpoints)
    told = {(one.group, one.upstream): one.downstream for one in world.checkpoints()}
    assert told[old, 10] == 0


def test_a_failover_with_an_expired_group_goes_through(world: World, topic: str) -> None:
    old, good = group(world, "old", topic, 10), group(world, "good", topic, 80)
    simulated = simulate(world.flow)
    run = carry_out(world, simulated, "failover", {(old, topic): ALL, (good, topic): ALL})
    assert run.state == "succeeded", run.reason
    rows = {row["group"]: row for row in run.result["partitions"]}
    assert {name: rows[name]["downstream_offset"] for name in (old, good)} == {old: 0, good: 80}


def test_groups_for_which_there_is_no_time_leave_the_others_verified(
    world: World, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        group(world, f"many{number}", topic, 70 + number)
    monkeypatch.setattr(temporary_groups, "READ_S", 0.0)
    run = simulate(world.flow)
    rows = found(run)
    assert len(rows) == 12
    read = [row for row in rows.values() if row["verdict"] == "proven"]
    late = [row for row in rows.values() if row["verdict"] == "unread"]
    assert read
    assert late
    assert len(read) + len(late) == 12
    assert "was not read within" in late[0]["reason"]
    assert run.verification == "partly_verified"


def test_records_that_the_source_deletes_meanwhile_leave_the_other_groups_proven(
    world: World, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, good = group(world, "slow", topic, 65), group(world, "good", topic, 90)
    read = simulator.read_groups

    def and_delete(**how: Any) -> Any:
        found = read(**how)
        delete_before(world.copy.source, topic, 80)
        return found

    monkeypatch.setattr(simulator, "read_groups", and_delete)
    rows = found(simulate(world.flow))
    assert rows[good]["verdict"] == "proven"
    assert rows[slow]["verdict"] == "unproven"
    assert "its log now starts at 80" in rows[slow]["reason"]


def test_a_group_whose_coordinator_refuses_blocks_by_name_and_leaves_the_others_proven(
    world: World, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = group(world, "bad", topic, 80), group(world, "good", topic, 90)
    read = source_groups.read_offsets

    def refused(spec: Any, groups: Any, **how: Any) -> Any:
        answer = read(spec, groups, **how)
        answer.done.pop(bad, None)
        answer.failed[bad] = KafkaUnavailable("Its coordinator is not available.", code="busy")
        return answer

    monkeypatch.setattr(source_groups, "read_offsets", refused)
    run = simulate(world.flow)
    assert {name: row["verdict"] for name, row in found(run).items()} == {good: "proven"}
    (told,) = run.plan["blockers"]
    assert (told["code"], told["where"]) == ("no_groups", bad)
    assert "Its coordinator is not available. To switch the other groups over" in told["sentence"]
    assert simulate(world.flow, good).plan["blockers"] == []

"""A missing permission is named, and what it hides is never treated as zero."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from spark_runner.status.flow import FlowProgress
from tests.security.secured import LIMITED, SecuredBroker
from tests.security.test_acl_sync import eventually
from tests.security.test_authorization import rule_filter
from tests.security.test_least_privilege import limited

Pair = tuple[SecuredBroker, SecuredBroker]
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


class LimitedFlow:
    """A source that lets in only whom a rule allows, and the rules made on both sides."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.name = f"r{uuid.uuid4().hex[:8]}"
        self.open = [side.spec("PLAINTEXT") for side in pair]
        self._admins = [
            AdminClient({"bootstrap.servers": spec.bootstrap_servers, "log_level": 0})
            for spec in self.open
        ]
        self._made: list[tuple[int, AclBinding]] = []
        self._planners: list[Planner] = []

    def make(self, topic: str, partitions: int = 1, *, side: int = 0) -> str:
        with Admin(self.open[side]) as admin:
            new = NewTopicSpec(name=topic, partitions=partitions, replication_factor=1)
            admin.create_topics([new]).raise_first()
            eventually(lambda: topic in admin.topic_names())
        return topic

    def fill(self, topic: str) -> None:
        producer = Producer({"bootstrap.servers": self.open[0].bootstrap_servers, "log_level": 0})
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(30) == 0

    def rule(
        self,
        name: str,
        operation: AclOperation,
        *,
        side: int = 0,
        permission: AclPermissionType = ALLOW,
        pattern: ResourcePatternType = LITERAL,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> None:
        made = AclBinding(kind, name, pattern, f"User:{LIMITED}", "*", operation, permission)
        self._admins[side].create_acls([made])[made].result(20)
        self._made.append((side, made))

    def target_rights(self, alias: str) -> None:
        for name in (f"{alias}.", "mm2-"):
            self.rule(name, AclOperation.ALL, side=1, pattern=PREFIXED)
        for kind, name in (
            (ResourceType.TRANSACTIONAL_ID, "understudy."),
            (ResourceType.GROUP, "understudy"),
        ):
            self.rule(name, AclOperation.ALL, side=1, pattern=PREFIXED, kind=kind)

    def planner(self, topics: str, *, target: ClusterSpec | None = None) -> Planner:
        source = limited(self.pair[0], f"{self.name}a")
        target = target or self.pair[1].spec("LOGIN", "PLAIN", alias=f"{self.name}b")
        job = JobSpec(
            job=1, flow=1, name=f"{source.alias}->{target.alias}", generation=1,
            desired="running", source=source, target=target,
            properties={"topics": topics, "heartbeats.replication.enabled": "false"},
        )  # fmt: skip
        planner = Planner(job, owner=uuid.uuid4().hex)
        self._planners.append(planner)
        self.board = FlowProgress(job, 0)
        planner.take_over()
        return planner

    def until(self, planner: Planner, look: Callable[[Plan], object]) -> Plan:
        """Brokers hear of rules a moment after they were made."""
        found: list[Plan] = []

        def planned() -> object:
            found[:] = [
                planner.plan(
                    now=int(time.time() * 1000), most_slices=1, positions={}, slices={},
                    context=PlanContext(),
                )
            ]  # fmt: skip
            return look(found[0])

        eventually(planned)
        self.board.apply_plan(found[0])
        return found[0]

    @staticmethod
    def fails_no_more(act: Callable[[], object]) -> bool:
        try:
            act()
        except UnderstudyError:
            return False
        return True

    def close(self) -> None:
        for planner in self._planners:
            planner.close()
        for side, made in self._made:
            self._admins[side].delete_acls([rule_filter(made)])
        for spec in self.open:
            with Admin(spec) as admin:
                admin.delete_topics([name for name in admin.topic_names() if self.name in name])


@pytest.fixture
def here(secured_pair: Pair) -> Iterator[LimitedFlow]:
    scene = LimitedFlow(secured_pair)
    yield scene
    scene.close()


def test_a_principal_that_sees_nothing_is_no_flow_without_topics(here: LimitedFlow) -> None:
    topic = here.make(f"{here.name}.orders")
    planner = here.planner(rf"{here.name}\..*")
    plan = here.until(planner, lambda plan: plan.not_visible)
    assert "lacks DESCRIBE" in plan.not_visible
    assert f"--allow-principal User:{LIMITED} --operation Describe" in plan.not_visible
    assert here.board.problems() == (plan.not_visible,)
    here.rule(f"{here.name}.", AclOperation.READ, pattern=PREFIXED)
    here.rule(f"{here.name}.", AclOperation.DESCRIBE_CONFIGS, pattern=PREFIXED)
    plan = here.until(planner, lambda plan: plan.partitions)
    assert (plan.not_visible, set(plan.partitions)) == ("", {(topic, 0)})
    assert here.board.problems() == ()


def test_a_right_on_names_that_do_not_exist_yet_is_no_missing_one(here: LimitedFlow) -> None:
    here.rule(f"{here.name}.later", AclOperation.READ, pattern=PREFIXED)
    planner = here.planner(rf"{here.name}\.later.*")
    here.until(planner, lambda plan: not plan.not_visible)
    assert here.board.problems() == ()


def test_a_topic_that_is_named_and_hidden_is_told_of(here: LimitedFlow) -> None:
    seen, hidden = here.make(f"{here.name}.seen"), here.make(f"{here.name}.hidden")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        here.rule(seen, operation)
    planner = here.planner(f"{seen},{hidden}".replace(".", r"\."))
    plan = here.until(planner, lambda plan: plan.partitions)
    assert set(plan.partitions) == {(seen, 0)}
    assert f"{hidden}, named in topics, cannot be described" in plan.not_visible
    assert f"--operation Describe --topic {hidden}" in plan.not_visible


def test_a_topic_that_was_copied_and_is_hidden_now_was_not_deleted(here: LimitedFlow) -> None:
    topic = here.make(f"{here.name}.orders", 2)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        here.rule(f"{here.name}.", operation, pattern=PREFIXED)
    planner = here.planner(rf"{here.name}\..*")
    here.until(planner, lambda plan: len(plan.partitions) == 2)
    here.rule(topic, AclOperation.DESCRIBE, permission=DENY)
    # A rule that is made between two requests of one plan is reported as the second one's error.
    grant = f"--operation Describe --topic {topic}"
    plan = here.until(
        planner,
        lambda plan: not plan.partitions and any(grant in row.reason for row in plan.topics),
    )
    assert {error.code for error in plan.stopped.values()} == {"not_described"}
    assert {error.offset for error in plan.stopped.values()} == {0}
    [row] = [row for row in plan.topics if row.topic == topic]
    assert (row.state, row.code, row.partitions) == ("faulted", "not_described", 2)
    assert grant in row.reason
    [words] = here.board.problems()
    assert words.startswith(f"{topic} (2 partitions) cannot be described. ")


def test_a_blocked_topic_that_is_hidden_now_still_owes_its_records(here: LimitedFlow) -> None:
    # Its remote name would be longer than Kafka allows, so it is never copied.
    topic = here.make(f"{here.name}.".ljust(249, "x"), 2)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        here.rule(f"{here.name}.", operation, pattern=PREFIXED)
    planner = here.planner(rf"{here.name}\..*")
    codes = lambda plan: {tp: error.code for tp, error in plan.stopped.items()}  # noqa: E731
    both = [(topic, 0), (topic, 1)]
    here.until(planner, lambda plan: codes(plan) == dict.fromkeys(both, "cannot_be_created"))
    here.rule(topic, AclOperation.DESCRIBE, permission=DENY)
    hidden = dict.fromkeys(both, "not_described")
    here.until(planner, lambda plan: codes(plan) == hidden)
    # The plan after that one remembers it as well.
    here.until(planner, lambda plan: codes(plan) == hidden)
    assert here.board.partitions() == both


def test_settings_that_may_not_be_read_keep_a_remote_topic_from_being_created(
    here: LimitedFlow,
) -> None:
    topic = here.make(f"{here.name}.orders")
    here.rule(topic, AclOperation.READ)
    planner = here.planner(rf"{here.name}\..*")
    plan = here.until(planner, lambda plan: (topic, 0) in plan.stopped)
    error = plan.stopped[topic, 0]
    assert error.code == "not_described"
    assert f"--operation DescribeConfigs --topic {topic}" in error.reason


def test_a_remote_topic_that_is_hidden_was_not_deleted_on_the_target(here: LimitedFlow) -> None:
    topic = here.make(f"{here.name}.orders")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        here.rule(topic, operation)
    here.target_rights(f"{here.name}a")
    target = limited(here.pair[1], f"{here.name}b")
    eventually(lambda: here.fails_no_more(lambda: here.planner(rf"{here.name}\..*", target=target)))
    planner = here._planners[-1]
    here.until(planner, lambda plan: plan.partitions)
    remote = f"{here.name}a.{topic}"
    here.rule(remote, AclOperation.DESCRIBE, side=1, permission=DENY)
    plan = here.until(planner, lambda plan: not plan.partitions)
    error = plan.stopped[topic, 0]
    assert (error.code, error.gap) == ("not_described", None)
    assert f"--operation Describe --topic {remote}" in error.reason


def test_a_topic_that_may_not_be_created_is_counted_with_the_right_that_is_missing(
    here: LimitedFlow,
) -> None:
    topic = here.make(f"{here.name}.orders", 2)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        here.rule(topic, operation)
    here.target_rights(f"{here.name}a")
    remote = f"{here.name}a.{topic}"
    here.rule(remote, AclOperation.CREATE, side=1, permission=DENY)
    target = limited(here.pair[1], f"{here.name}b")
    eventually(lambda: here.fails_no_more(lambda: here.planner(rf"{here.name}\..*", target=target)))
    plan = here.until(here._planners[-1], lambda plan: plan.stopped)
    assert {tp: error.code for tp, error in plan.stopped.items()} == {
        (topic, 0): "cannot_be_created",
        (topic, 1): "cannot_be_created",
    }
    assert f"--operation Create --topic {remote}" in plan.stopped[topic, 0].reason


def test_settings_of_a_remote_topic_that_may_not_be_read_are_a_warning(here: LimitedFlow) -> None:
    topic = here.make(f"{here.name}.orders")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        here.rule(topic, operation)
    here.target_rights(f"{here.name}a")
    remote = f"{here.name}a.{topic}"
    here.rule(remote, AclOperation.DESCRIBE_CONFIGS, side=1, permission=DENY)
    target = limited(here.pair[1], f"{here.name}b")
    eventually(lambda: here.fails_no_more(lambda: here.planner(rf"{here.name}\..*", target=target)))
    plan = here.until(here._planners[-1], lambda plan: plan.partitions and plan.warnings)
    [words] = [text for text in plan.warnings if "cannot be read" in text]
    assert words.startswith("The settings of 1 remote topic cannot be read")
    assert f"--operation DescribeConfigs --topic {remote}" in words

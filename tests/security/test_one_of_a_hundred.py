"""An ACL that denies one topic of a hundred does not affect the other ninety-nine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.domain.topics.acls import AclRule
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.services import clusters
from mirrors.services.flows import settings
from mirrors.services.topics import configs
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.planner import Planner
from tests.security.secured import LIMITED, SecuredBroker
from tests.security.test_acl_sync import eventually
from tests.security.test_flows_copy import copy
from tests.security.test_least_privilege import limited

COUNT = 100
Pair = tuple[SecuredBroker, SecuredBroker]


def rule(name: str, operation: str, permission: str, pattern: str = "LITERAL") -> AclRule:
    return AclRule(
        name=name,
        principal=f"User:{LIMITED}",
        host="*",
        operation=operation,
        permission=permission,
        pattern=pattern,
    )


class HundredTopics:
    """A hundred topics with a record each; one of them is forbidden."""

    def __init__(self, pair: Pair) -> None:
        self.name = f"h{uuid.uuid4().hex[:8]}"
        self.topics = [f"{self.name}.{number:02}" for number in range(COUNT)]
        self.forbidden = self.topics[COUNT // 2]
        self.open = [side.spec("PLAINTEXT") for side in pair]

    def make(self, side: ClusterSpec, names: list[str]) -> None:
        with Admin(side) as admin:
            specs = [NewTopicSpec(name=name, partitions=1, replication_factor=1) for name in names]
            admin.create_topics(specs).raise_first()
            eventually(lambda: set(names) <= set(admin.topic_names()))

    def fill(self) -> None:
        producer = Producer({"bootstrap.servers": self.open[0].bootstrap_servers, "log_level": 0})
        for topic in self.topics:
            producer.produce(topic, topic.encode(), partition=0)
        assert producer.flush(30) == 0

    def grant(self, side: ClusterSpec, rules: list[AclRule]) -> None:
        with Acls(side) as acls:
            acls.create_rules(rules).raise_first()
            eventually(lambda: set(rules) <= set(acls.rules() or []))

    def close(self) -> None:
        for side in self.open:
            with Acls(side) as acls:
                acls.delete_rules([row for row in acls.rules() or [] if self.name in row.name])
            with Admin(side) as admin:
                admin.delete_topics([name for name in admin.topic_names() if self.name in name])


@pytest.fixture
def hundred(secured_pair: Pair) -> Iterator[HundredTopics]:
    made = HundredTopics(secured_pair)
    yield made
    made.close()


def test_ninety_nine_are_copied_and_the_one_alone_is_told_of(
    secured_pair: Pair, hundred: HundredTopics
) -> None:
    hundred.make(hundred.open[0], hundred.topics)
    hundred.fill()
    may = [rule(hundred.name, word, "ALLOW", "PREFIXED") for word in ("READ", "DESCRIBE_CONFIGS")]
    hundred.grant(hundred.open[0], [*may, rule(hundred.forbidden, "READ", "DENY")])
    source, target = (f"{hundred.name}{side}" for side in "ab")
    job = JobSpec(
        job=1,
        flow=1,
        name=f"{source}->{target}",
        generation=1,
        desired="running",
        source=limited(secured_pair[0], source),
        target=secured_pair[1].spec("LOGIN", "PLAIN", alias=target),
        properties={
            "topics": rf"{hundred.name}\..*",
            "heartbeats.replication.enabled": "false",
            "commit.interval.ms": "100",
        },
    )
    ends = {(topic, 0): 1 for topic in hundred.topics if topic != hundred.forbidden}
    eventually(lambda: is_planned_whole(job))
    plan, result = copy(job, "raw", ends)
    assert result.ended_because == "stop"
    told = [*result.errors, *plan.stopped.values()]
    assert {row.topic for row in told} == {hundred.forbidden}


def is_planned_whole(job: JobSpec) -> bool:
    """The broker's authorizer hears of rules after the controller has answered."""
    planner = Planner(job, owner="test")
    try:
        planner.take_over()
        plan = planner.plan(now=1, most_slices=1, positions={}, slices={}, context=PlanContext())
    finally:
        planner.close()
    return len(plan.partitions) >= COUNT - 1


@pytest.mark.django_db
def test_ninety_nine_get_their_settings_and_the_one_is_named(
    secured_pair: Pair, hundred: HundredTopics
) -> None:
    alias = f"{hundred.name}a"
    remote = {topic: f"{alias}.{topic}" for topic in hundred.topics}
    hundred.make(hundred.open[0], hundred.topics)
    hundred.make(hundred.open[1], list(remote.values()))
    with Admin(hundred.open[0]) as admin:
        changes = {topic: {"retention.ms": "1234567"} for topic in hundred.topics}
        admin.alter_configs(changes).raise_first()
    words = ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    may = [rule(alias, word, "ALLOW", "PREFIXED") for word in words]
    never = rule(remote[hundred.forbidden], "ALTER_CONFIGS", "DENY")
    hundred.grant(hundred.open[1], [*may, never])
    pair = [
        clusters.create_cluster(spec=spec, who="tester")
        for spec in (
            secured_pair[0].spec("LOGIN", "PLAIN", alias=alias),
            limited(secured_pair[1], f"{hundred.name}b"),
        )
    ]
    properties = {"topics": rf"{hundred.name}\..*", "heartbeats.replication.enabled": "false"}
    row = settings.create_flow(source=pair[0], target=pair[1], properties=properties, who="tester")
    context = SyncTaskContext(flow_id=row.pk, spec=row.spec, now=0, deadline_s=30)
    with Admin(hundred.open[1]) as admin:

        def settled() -> bool:
            outcome = configs.sync_configs(context)
            seen = admin.describe_configs(list(remote.values())).done
            done = [name for name in seen if seen[name]["retention.ms"].value == "1234567"]
            told = [text for text in outcome.reasons if remote[hundred.forbidden] in text]
            return len(done) == COUNT - 1 and len(told) == 1 and "authoriz" in told[0]

        eventually(settled)
        kept = admin.describe_configs([remote[hundred.forbidden]]).done
    assert kept[remote[hundred.forbidden]]["retention.ms"].value != "1234567"

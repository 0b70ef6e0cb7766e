"""Keys of MirrorMaker 2, each changed, and the effect on two real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.sync.scheduler import run_task
from mirrors.services.topics import configs as sync_topics
from tests.groups.world import World
from tests.wire.world import unique

MakeWorld = Callable[..., World]
# A moment at which turns of 7 s begin.
NOW = datetime.fromtimestamp(7 * 250_000_000, UTC)
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def eventually(look: Callable[[], object]) -> None:
    until = time.monotonic() + 15
    while not look():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def stem(primary: str, backup: str) -> Iterator[str]:
    """Begins the names of all topics that a test makes; they are gone after it."""
    yield (name := unique("key"))
    for address in (primary, backup):
        spec = ClusterSpec(alias="any", bootstrap_servers=address)
        with Admin(spec) as admin:
            admin.delete_topics([topic for topic in admin.topic_names() if name in topic])


class AppliedPlan:
    """One flow whose plan is applied, as a person would have it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def make(self, *names: str, **configs: str) -> None:
        settings = {key.replace("_", "."): text for key, text in configs.items()}
        with Admin(self.world.copy.source.spec) as admin:
            specs = [
                NewTopicSpec(name=name, partitions=1, replication_factor=1, configs=settings)
                for name in names
            ]
            admin.create_topics(specs).raise_first()
            eventually(lambda: set(names) <= set(admin.topic_names()))

    def apply(self) -> tuple[str, ...]:
        """What failed or was left out."""

        def act(context):  # type: ignore[no-untyped-def]
            plan = sync_topics.find_differences(context)
            return (*sync_topics.apply(context, plan), *plan.left_out)

        return self.world.do(act)  # type: ignore[return-value]

    def there(self, stem: str) -> set[str]:
        with Admin(self.world.copy.target.spec) as admin:
            return {name for name in admin.topic_names() if stem in name}

    def overrides(self, topic: str) -> dict[str, str | None]:
        with Admin(self.world.copy.target.spec) as admin:
            entries = admin.describe_configs([topic]).raise_first().done[topic]
        return {
            key: entry.value
            for key, entry in entries.items()
            if entry.source == "DYNAMIC_TOPIC_CONFIG"
        }


@pytest.mark.parametrize(
    ("key", "text", "made"),
    [
        ("topics", "{stem}-a", {"{alias}.{stem}-a"}),
        ("topics.exclude", ".*-a", {"{alias}.{stem}-b"}),
        ("replication.policy.separator", "_", {"{alias}_{stem}-a", "{alias}_{stem}-b"}),
        ("replication.policy.class", IDENTITY, {"{stem}-a", "{stem}-b"}),
        ("replication.factor", "-1", {"{alias}.{stem}-a", "{alias}.{stem}-b"}),
        ("replication.factor", "3", set()),
    ],
)
def test_which_remote_topics_are_made_and_under_which_names(
    world: MakeWorld, stem: str, key: str, text: str, made: set[str]
) -> None:
    properties = {"topics": f"{stem}-.*", "heartbeats.replication.enabled": "false"}
    both = AppliedPlan(world(**properties | {key: text.format(stem=stem)}))
    both.make(f"{stem}-a", f"{stem}-b")
    left = both.apply()
    names = {name.format(stem=stem, alias=both.world.alias) for name in made}
    eventually(lambda: both.there(stem) == names)
    assert bool(made) or any("replication.factor is 3" in text for text in left)


@pytest.mark.parametrize(("switch", "made"), [("true", True), ("false", False)])
def test_heartbeats_topics_are_copied_whatever_topics_says_unless_switched_off(
    world: MakeWorld, stem: str, switch: str, made: bool
) -> None:
    """Only the heartbeats topic: a name that ends so may be anybody's."""
    both = AppliedPlan(world(topics="nothing", **{"heartbeats.replication.enabled": switch}))
    both.make("heartbeats", f"{stem}.heartbeats")
    both.apply()
    remote = f"{both.world.alias}.heartbeats"
    eventually(lambda: (remote in both.there(both.world.alias)) is made)
    assert both.there(stem) == set()
    with Admin(both.world.copy.target.spec) as admin:
        admin.delete_topics(both.there(both.world.alias))


def test_settings_of_remote_topics_leave_out_what_is_excluded_and_take_over_defaults_when_told_so(
    world: MakeWorld, stem: str
) -> None:
    properties = {
        "topics": f"{stem}-.*",
        "heartbeats.replication.enabled": "false",
        "config.properties.exclude": r"retention\..*, min\.insync\.replicas",
    }
    both = AppliedPlan(world(**properties))
    both.make(f"{stem}-a", retention_ms="1000000", segment_ms="2000000")
    both.apply()
    remote = f"{both.world.alias}.{stem}-a"
    eventually(lambda: remote in both.there(stem))
    assert both.overrides(remote) == {"segment.ms": "2000000"}
    both.world.set(**{"use.defaults.from": "source"})
    assert both.apply() is not None
    eventually(lambda: len(both.overrides(remote)) > 10)
    assert "retention.ms" not in both.overrides(remote)
    both.world.set(**{"use.defaults.from": "target"})
    both.apply()
    eventually(lambda: both.overrides(remote) == {"segment.ms": "2000000"})


@pytest.mark.parametrize(
    ("follows", "dots"), [("true", "{}_checkpoints_internal"), ("false", "{}.checkpoints.internal")]
)
def test_internal_topics_use_the_separator_or_a_dot_and_as_many_copies_as_there_are_brokers(
    world: MakeWorld, stem: str, follows: str, dots: str
) -> None:
    keys = {
        "replication.policy.separator": "_",
        "replication.policy.internal.topic.separator.enabled": follows,
        "checkpoints.topic.replication.factor": "2",
    }
    here = world(groups=stem, **keys)
    here.do(emit_checkpoints)
    name = dots.format(here.alias)
    with Admin(here.copy.target.spec) as admin:
        made = admin.snapshot([name], now=0).topics[name]
        admin.delete_topics([name])
    assert (made.partitions, made.replication_factor) == (1, 1)


class TaskChange:
    """One duty: how the source is changed, and whether the brokers show that it came over."""

    def __init__(self, world: World, stem: str) -> None:
        self.world, self.group = world, stem
        self.topic = world.topic(stem)
        world.fill(self.topic, 30)
        world.copy.copy()
        world.commit(self.group, self.topic, 1)

    def change(self, step: int) -> None:
        """Another setting of the topic, another place of the group, and one group more."""
        with Admin(self.world.copy.source.spec) as admin:
            admin.alter_configs({self.topic: {"retention.ms": str(1_000_000 + step)}})
            eventually(lambda: self._retention(admin, self.topic) == str(1_000_000 + step))
        self.world.commit(self.group, self.topic, 10 + step)
        self.world.commit(f"{self.group}-{step}", self.topic, 5)

    def shows(self, duty: str, step: int) -> bool:
        if duty == "topic configs":
            with Admin(self.world.copy.target.spec) as admin:
                remote = self.world.remote(self.topic)
                return self._retention(admin, remote) == str(1_000_000 + step)
        if duty == "groups":
            return bool(self.world.rows(group=f"{self.group}-{step}"))
        if duty == "checkpoints":
            found = self.world.checkpoints() if self._is_made() else []
            return any((row.group, row.upstream) == (self.group, 10 + step) for row in found)
        place = self.world.stands(self.group, self.topic)
        return place is not None and place.offset == 10 + step

    def _is_made(self) -> bool:
        with Admin(self.world.copy.target.spec) as admin:
            return f"{self.world.alias}.checkpoints.internal" in admin.topic_names()

    def _retention(self, admin: Admin, topic: str) -> str | None:
        return admin.describe_configs([topic]).raise_first().done[topic]["retention.ms"].value


@pytest.mark.parametrize(
    ("duty", "prefix"),
    [
        ("topic configs", "sync.topic.configs"),
        ("groups", "refresh.groups"),
        ("checkpoints", "emit.checkpoints"),
        ("group offsets", "sync.group.offsets"),
    ],
)
def test_a_switch_says_whether_and_an_interval_how_often_the_brokers_are_brought_into_step(
    world: MakeWorld, stem: str, duty: str, prefix: str
) -> None:
    here = world(groups=f"{stem}.*", **{f"{prefix}.enabled": "false"})
    turns = TaskChange(here, stem)
    here.set(**{"topics": turns.topic, "heartbeats.replication.enabled": "false"})

    def run(seconds: int) -> bool:
        return run_task(flow_id=here.flow.pk, name=duty, now=NOW + timedelta(seconds=seconds))

    turns.change(1)
    assert not run(0)
    assert not turns.shows(duty, 1)
    here.set(**{f"{prefix}.enabled": "true", f"{prefix}.interval.seconds": "7"})
    assert run(0)
    eventually(lambda: turns.shows(duty, 1))
    turns.change(2)
    assert not run(6)
    assert not turns.shows(duty, 2)
    assert run(7)
    eventually(lambda: turns.shows(duty, 2))


def test_without_offset_syncs_their_topic_is_not_made(world: MakeWorld, stem: str) -> None:
    here = world(groups=stem, **{"emit.offset-syncs.enabled": "false"})
    here.fill(here.topic(stem), 10)
    here.copy.copy()
    name = f"mm2-offset-syncs.{here.copy.target.spec.alias}.internal"

    def run() -> bool:
        return run_task(flow_id=here.flow.pk, name="offset syncs", now=NOW)

    def syncs() -> int:
        with Admin(here.copy.source.spec) as admin:
            is_made = name in admin.topic_names()
        found = here.syncs(here.copy.source, name) if is_made else []
        return len([sync for sync in found if stem in sync.topic])

    assert not run()
    assert syncs() == 0
    here.set(**{"emit.offset-syncs.enabled": "true"})
    assert run()
    eventually(syncs)

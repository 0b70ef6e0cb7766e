"""MM2's offset syncs: in its bytes and topic, never ahead for a reader, and no duplicate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.offsets.mm2_syncs import Sync
from mirrors.domain.settings.validation import validate_properties
from mirrors.kafka.admin.topics import Admin
from mirrors.models import SyncedPartition
from mirrors.services.groups.mm2_offset_syncs import write_offset_syncs
from mirrors.services.offsets.translation import translate_offsets
from tests.domain.mm2_syncs import SyncIndex
from tests.groups.world import World

MakeWorld = Callable[..., World]


def test_a_reader_of_the_syncs_is_never_led_ahead_and_gets_none_twice(world: MakeWorld) -> None:
    here = world(offset_lag_max="5")
    topic = here.topic("orders")
    name = f"mm2-offset-syncs.{here.copy.target.spec.alias}.internal"
    index = SyncIndex()
    for batches in (12, 8):
        here.fill_badly(topic, batches, batches)
        here.copy.copy()
        here.do(write_offset_syncs)
    assert here.do(write_offset_syncs).counts == {"partitions": 0, "syncs": 0}
    found = [sync for sync in here.syncs(here.copy.source, name) if sync.topic == topic]
    assert [sync.upstream for sync in found] == sorted({sync.upstream for sync in found})
    truth = here.truth(topic)
    for sync in found:
        assert truth[sync.upstream] == sync.downstream
        index.add(Sync(sync.upstream, sync.downstream))
    assert found[-1].upstream == max(truth)
    offsets = list(range(min(truth), here.copy.ends()[topic, 0]))
    answers = translate_offsets(flow=here.flow, partitions={(topic, 0): offsets})[topic, 0]
    for offset, answer in zip(offsets, answers, strict=True):
        guess = index.translate(offset)
        assert guess is not None
        assert answer.downstream is not None
        assert guess <= answer.downstream
    # A recreated topic of syncs gets all of them again.
    count = len(found)
    SyncedPartition.objects.all().delete()
    assert here.do(write_offset_syncs).counts["syncs"] >= count


@pytest.mark.parametrize("location", ["source", "target"])
def test_the_topic_is_where_the_setting_says_and_named_after_the_other_side(
    world: MakeWorld, location: str
) -> None:
    here = world(
        **{
            "offset-syncs.topic.location": location,
            "offset-syncs.topic.replication.factor": "2",
            "replication.policy.separator": "-",
        }
    )
    topic = here.topic("orders")
    here.fill(topic, 10)
    here.copy.copy()
    here.do(write_offset_syncs)
    other = here.copy.target.spec.alias if location == "source" else here.alias
    side = here.copy.source if location == "source" else here.copy.target
    name = f"mm2-offset-syncs-{other}-internal"
    with Admin(side.spec) as admin:
        made = admin.snapshot([name], now=0).topics[name]
    assert (made.partitions, made.replication_factor) == (1, 1)
    assert made.config("cleanup.policy") == "compact"
    mine = [sync for sync in here.syncs(side, name) if sync.topic == topic]
    assert [(sync.upstream, sync.downstream) for sync in mine] == [(0, 0), (9, 9)]
    elsewhere = here.copy.target if location == "source" else here.copy.source
    with Admin(elsewhere.spec) as admin:
        assert name not in admin.topic_names()


def test_how_syncs_are_kept_cannot_be_said_where_there_are_none() -> None:
    errors = validate_properties(
        {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"}
    )
    assert list(errors) == ["offset-syncs.topic.location"]
    assert "emit.offset-syncs.enabled is false" in str(InvalidSettings(errors))

"""MM2's offset syncs on real brokers: a group that MM2 copied resumes at a verified lower bound."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from mirrors.domain.internal_topics.records import OffsetSync
from mirrors.domain.offsets.mm2_bounds import Pair
from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import Flow, KnownCheckpoint, OffsetBounds, PartitionMap
from mirrors.services.offsets import mm2_bounds
from mirrors.services.offsets.index_refresh import refresh_and_translate
from mirrors.services.offsets.translation import translate_offsets
from tests.mirrors.comparison import flow_of, record
from tests.mirrors.maps import keep_map
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
TAKEN, SIZE = 400, 450


@pytest.fixture
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    both = Side(unique("one"), primary), Side(unique("two"), backup)
    yield both
    for side in both:
        side.close()


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds from pairs alone: the records themselves are not looked for."""
    monkeypatch.setattr(mm2_bounds, "MOST_SEARCHED", 0)


class World:
    """Seven foreign records, four hundred that MM2 copied, then fifty that the flow copied."""

    SHIFT = 7

    def __init__(
        self, sides: tuple[Side, Side], *, alike: Collection[int] = (), shift: int = SHIFT
    ) -> None:
        self.source, self.target = sides
        self.topic = unique("taken")
        self.remote = f"{self.source.spec.alias}.{self.topic}"
        self.source.make(self.topic)
        self.target.make(self.remote)
        self.flow: Flow = flow_of(self.source, self.target, self.topic)
        self.records = [record(0 if at in alike else at) for at in range(SIZE)]
        self.source.write(self.topic, 0, self.records)
        foreign = [record(9_000_000 + number) for number in range(shift)]
        self.target.write(self.remote, 0, [*foreign, *self.records])
        runs = [Run(TAKEN, TAKEN + shift, SIZE - TAKEN)]
        self.map = keep_map(
            self.flow, self.topic, 0, runs, position=SIZE, at_once=9, follows=TAKEN + shift
        )

    def sync(self, *pairs: tuple[int, int], there: bool = False) -> None:
        side, other = (self.target, self.source) if there else (self.source, self.target)
        topic = f"mm2-offset-syncs.{other.spec.alias}.internal"
        known = side.admin.client.list_topics(timeout=10).topics
        if topic not in known:
            side.make(topic, cleanup_policy="compact")
        rows = [OffsetSync(self.topic, 0, *pair) for pair in pairs]
        append(side.spec, topic, [NewRecord(row.key, row.value, 0) for row in rows])

    def ask(self, *offsets: int) -> list[Translation]:
        tp = (self.topic, 0)
        return refresh_and_translate(flow=self.flow, partitions={tp: offsets}, deadline_s=20)[tp]


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("there", [False, True])
def test_a_group_in_what_mm2_copied_gets_the_nearest_proven_sync(
    sides: tuple[Side, Side], there: bool
) -> None:
    world = World(sides)
    (before,) = world.ask(250)
    assert (before.outcome, before.downstream) == ("unknown", None)
    # Read once, the topic of syncs is read again after a while.
    OffsetBounds.objects.all().delete()
    shift = world.SHIFT
    world.sync(*((at, at + shift) for at in range(0, TAKEN, 100)), there=there)
    answers = world.ask(250, 200, 399, 0, 401)
    assert [(row.outcome, row.downstream) for row in answers] == [
        ("lower_bound", 200 + shift + 1),
        ("lower_bound", 200 + shift),
        ("lower_bound", 300 + shift + 1),
        ("lower_bound", shift),
        ("exact", 401 + shift),
    ]
    # The records really read again are no more than said, and none is skipped.
    for row in answers[:4]:
        exact = row.upstream + shift
        assert row.downstream is not None
        assert row.re_reads is not None
        assert 0 <= exact - row.downstream <= row.re_reads <= 101
    # The page has it from rows alone; who asks for the place of a record gets no bound.
    rows = {(world.topic, 0): [250]}
    [bound] = translate_offsets(flow=world.flow, partitions=rows, with_bounds=True)[world.topic, 0]
    assert bound.downstream == 200 + shift + 1
    [plain] = translate_offsets(flow=world.flow, partitions=rows)[world.topic, 0]
    assert plain.outcome == "unknown"


@pytest.mark.usefixtures("no_search")
def test_syncs_of_an_earlier_topic_are_refuted_by_content(sides: tuple[Side, Side]) -> None:
    world = World(sides)
    # Of a topic with that name before: one too far, one too near; and a true one far below.
    world.sync((249, 300), (240, 100), (50, 50 + world.SHIFT))
    (answer,) = world.ask(250)
    assert (answer.outcome, answer.downstream) == ("lower_bound", 50 + world.SHIFT + 1)
    known = OffsetBounds.objects.get(map=world.map)
    assert {Pair(*row) for row in known.refuted} == {Pair(249, 300), Pair(240, 100)}
    assert "were compared" in answer.reason


def test_where_no_sync_is_proven_there_is_no_bound(sides: tuple[Side, Side]) -> None:
    world = World(sides)
    world.sync((249, 300))
    (answer,) = world.ask(250)
    assert answer.outcome == "unknown"


def test_without_any_sync_a_bound_comes_from_this_flows_own_runs_only(
    sides: tuple[Side, Side],
) -> None:
    world = World(sides)
    # MM2 ran once more in between: nothing of 420 to 429 is in the map.
    PartitionMap.objects.filter(pk=world.map.pk).delete()
    runs = [Run(TAKEN, TAKEN + 7, 20), Run(430, 437, 20)]
    world.map = keep_map(
        world.flow, world.topic, 0, runs[:1], position=SIZE, at_once=1, follows=407
    )
    (first, between) = world.ask(250, 425)
    assert first.outcome == "unknown"
    assert (between.outcome, between.downstream) in {("lower_bound", 427), ("gap", 427)}


@pytest.mark.usefixtures("no_search")
def test_when_the_source_is_gone_what_was_learned_still_answers(sides: tuple[Side, Side]) -> None:
    world = World(sides)
    world.sync((200, 207))
    assert world.ask(250)[0].downstream == 208
    source = world.flow.source
    source.bootstrap_servers = "127.0.0.1:9"
    source.save()
    flow = Flow.objects.get(pk=world.flow.pk)
    (answer,) = refresh_and_translate(
        flow=flow, partitions={(world.topic, 0): [260]}, deadline_s=6
    )[world.topic, 0]
    assert (answer.outcome, answer.downstream) == ("lower_bound", 208)
    assert mm2_bounds.READ_AGAIN.total_seconds() == 600


@pytest.mark.usefixtures("no_search")
def test_where_the_syncs_are_gone_mm2s_checkpoints_bound(sides: tuple[Side, Side]) -> None:
    world = World(sides)
    shift = world.SHIFT
    # Another group's, from a sync at 150; and one of an earlier topic, which no content confirms.
    for group, upstream, downstream in (("other", 180, 150 + shift + 1), ("stale", 240, 400)):
        KnownCheckpoint.objects.create(
            flow=world.flow,
            group=group,
            topic=world.remote,
            partition=0,
            upstream=upstream,
            downstream=downstream,
        )
    found = world.ask(250, 160, 149)
    assert [(row.outcome, row.downstream) for row in found] == [
        ("lower_bound", 150 + shift + 1),
        ("lower_bound", 150 + shift + 1),
        ("unknown", None),
    ]
    known = OffsetBounds.objects.get(map=world.map)
    assert known.proven == [[150, 150 + shift]]
    assert [240, 400] in known.refuted


def test_the_record_itself_is_looked_for_behind_a_bound(sides: tuple[Side, Side]) -> None:
    world = World(sides)
    shift = world.SHIFT
    world.sync((0, shift))
    found = world.ask(250, 399, 0, 120)
    assert [(row.outcome, row.downstream, row.re_reads) for row in found] == [
        ("lower_bound", 250 + shift, 0),
        ("lower_bound", 399 + shift, 0),
        ("lower_bound", shift, 0),
        ("lower_bound", 120 + shift, 0),
    ]
    # Known once, nobody asks Kafka again.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_pairs", "starts_of", "compare_pairs", "locate_pairs", "find_copies"):
            patch.delattr(mm2_bounds, name)
        assert world.ask(250)[0].downstream == 250 + shift


def test_records_that_look_alike_never_lead_beyond_the_true_copy(sides: tuple[Side, Side]) -> None:
    world = World(sides, alike=range(200, 260))
    shift = world.SHIFT
    world.sync((0, shift))
    for offset in (205, 230, 255):
        (answer,) = world.ask(offset)
        assert answer.downstream is not None
        assert answer.downstream <= offset + shift


def test_without_any_sync_both_log_starts_are_tried(sides: tuple[Side, Side]) -> None:
    world = World(sides, shift=0)
    (answer,) = world.ask(250)
    assert (answer.outcome, answer.downstream, answer.re_reads) == ("lower_bound", 250, 0)

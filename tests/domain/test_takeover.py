"""Whether MM2 is idle is derived from its group and from the ends of the topics it writes."""

from __future__ import annotations

import dataclasses
import json

from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.migration.takeover import (
    Mm2Activity,
    Mm2Positions,
    read_mm2_positions,
    watched_topics,
)
from mirrors.domain.replication_policy import ReplicationPolicy

ENDS = {("mm2-offsets.a.internal", 0): 5, ("a.orders", 0): 9}
STAND = Mm2Positions(
    partitions=2, topics=frozenset({"orders"}), connectors=frozenset({"MirrorSourceConnector"})
)
QUIET = Mm2Activity(
    seconds=10, group_name="a-mm2", group="Empty", before=ENDS, after=ENDS, stand=STAND
)


def said(signs: Mm2Activity) -> str:
    return " ".join(signs.sentences("a", "b"))


def test_nothing_that_moves_and_no_member_is_quiet() -> None:
    assert QUIET.quiet
    assert "2 positions in 1 topics of a (MirrorSourceConnector)" in said(QUIET)
    assert dataclasses.replace(QUIET, group="").quiet


def test_one_sign_of_life_is_enough() -> None:
    alive = dataclasses.replace(QUIET, group="Stable")
    assert not alive.quiet
    assert "its group a-mm2 on b is Stable" in said(alive)
    moved = dataclasses.replace(QUIET, after={**ENDS, ("a.orders", 0): 10})
    assert (moved.quiet, moved.moved) == (False, ["a.orders"])
    assert "within 10 s the end of a.orders on b moved" in said(moved)


def test_a_source_without_positions_is_said() -> None:
    none = Mm2Positions(partitions=0, topics=frozenset(), connectors=frozenset())
    assert "MirrorMaker 2 stored no position of a on b" in said(
        dataclasses.replace(QUIET, stand=none)
    )


def test_positions_are_read_whatever_the_connectors_were_called() -> None:
    rows = [
        ConnectOffset(cluster="a", topic="t", partition=part, offset=3, connector=name)
        for part, name in ((0, "MirrorSourceConnector"), (1, "a->b.MirrorSourceConnector"))
    ]
    gone = dataclasses.replace(rows[0], offset=None)
    other = ConnectOffset(cluster="z", topic="t", partition=0, offset=3)
    pairs = [(row.key, row.value) for row in (*rows, other)]
    junk = (json.dumps(["Checkpoint", {"group": "g"}]).encode(), b"{}")
    stand = read_mm2_positions([*pairs, junk], "a")
    assert (stand.partitions, len(stand.connectors)) == (2, 2)
    assert read_mm2_positions([*pairs, (gone.key, gone.value)], "a").partitions == 1


def test_positions_under_an_empty_alias_are_those_of_the_topic_s_source() -> None:
    """With an empty `source.cluster.alias`, MM2 writes no cluster into the topic of the source."""
    row = ConnectOffset(cluster="", topic="orders", partition=0, offset=3)
    assert read_mm2_positions([(row.key, row.value)], "a").topics == {"orders"}


def test_what_mm2_writes_on_the_target_is_watched() -> None:
    names = watched_topics(ReplicationPolicy(source_alias="a", target_alias="b"), STAND)
    assert {"mm2-offsets.a.internal", "mm2-status.a.internal", "a.orders"} < names
    assert {"a.checkpoints.internal", "mm2-offset-syncs.a.internal"} < names

"""Faults for two flows that replicate the same adverse topics, one after another, under writes."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import confluent_kafka
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.models import Cluster
from mirrors.models import Flow as Row
from mirrors.services.offsets.run_index import refresh_index
from tests.conftest import CLEANED_EVERY_MS
from tests.pages import world as rows
from tests.spark.lab import Flow, Lab, position, unique, wait_for
from tests.spark.nasty_source import AdverseProducer
from tests.spark.reading import end_offsets
from tests.spark.test_gaps import decide, gap_of

BACK_S = 120
# Records more on both targets between two acts.
A_STRETCH = 150
COMPACT = {
    "cleanup_policy": "compact",
    "segment_ms": "300",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "0",
}


@dataclasses.dataclass
class IndexedFlow:
    """A flow in the runner and its row, whose index of runs is kept up beside it."""

    flow: Flow
    row: Row

    @classmethod
    def begin(cls, lab: Lab, prefix: str, **settings: str) -> IndexedFlow:
        flow = lab.flow(
            topics=rf"{prefix}\..*",
            tasks_max="2",
            config_properties_exclude="cleanup.policy",
            **settings,
        )
        one, two = (
            Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
            for spec in (flow.job.source, flow.job.target)
        )
        return cls(flow.start(), rows.flow(one, two))

    @property
    def exactly_once(self) -> bool:
        return self.flow.job.properties["delivery"] == "exactly_once"

    def wait_for_more(self) -> None:
        wanted = self._copied() + A_STRETCH
        wait_for(lambda: self._copied() >= wanted, seconds=BACK_S, what="copying on")

    def workers(self) -> list[int]:
        status = self.flow.status()
        return [row.pid for row in status.slices if row.pid] if status else []

    def _copied(self) -> int:
        status = self.flow.status()
        return sum(row.position or 0 for row in status.partitions) if status else 0


class AdverseTopics:
    """The topics, their writer and both flows; the runner may be killed, so it is of their own."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.chance = lab, random.Random(seed)
        name = unique("nasty")
        self.plain, self.keys, self.thin, self.cut = (
            f"{name}.{word}" for word in ("plain", "keys", "thin", "cut")
        )
        # What deletions may have taken before it was copied.
        self.deleted: dict[TopicPartition, int] = {}
        self.figures = Counter[str]()
        lab.create(self.plain, 2)
        lab.create(self.keys, 2, **COMPACT | {"cleanup_policy": "compact,delete"})
        lab.create(self.thin, 1, **COMPACT)
        lab.create(self.cut, 2)
        self.written = AdverseProducer(
            lab, {self.plain: 2, self.keys: 2, self.thin: 1, self.cut: 2}, seed
        )
        self.flows = [
            IndexedFlow.begin(lab, name, delivery="exactly_once", commit_interval_ms="60"),
            IndexedFlow.begin(lab, name, delivery="at_least_once", commit_interval_ms="400"),
        ]
        for copying in self.flows:
            copying.flow.wait_state("running", seconds=BACK_S)
            self._thin(copying.flow.remote(self.thin))

    def _thin(self, remote: str) -> None:
        entry = ConfigEntry(
            "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, remote, incremental_configs=[entry])
        self.lab.on_target.incremental_alter_configs([resource])[resource].result(20)

    # -- acts

    def acts(self) -> list[Callable[[], None]]:
        found = [
            self.kill_a_worker,
            self.kill_a_worker,
            self.kill_a_worker,
            self.kill_the_runner,
            self.add_a_partition,
            self.change_the_slices,
            self.lose_what_waits,
            self.delete_what_was_copied,
        ]
        self.chance.shuffle(found)
        return found

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            for act in self.acts():
                self.go_on()
                act()
                self.figures[act.__name__] += 1
        self.go_on()

    def go_on(self) -> None:
        """Both flows copy on for a while; the indexes keep up with them."""
        for copying in self.flows:
            copying.wait_for_more()
            refresh_index(flow=copying.row)
        time.sleep(self.chance.random() * 0.5)

    def kill_a_worker(self) -> None:
        """One of each flow, a little apart."""
        for copying in self.flows:
            wait_for(partial(self._strikes, copying), seconds=BACK_S, what="a worker to kill")
            time.sleep(self.chance.random() * 0.3)

    def _strikes(self, copying: IndexedFlow) -> bool:
        if not (pids := copying.workers()):
            return False
        try:
            os.kill(self.chance.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return False  # It ended, and its successor has said nothing yet.
        self.figures["workers killed"] += 1
        return True

    def kill_the_runner(self) -> None:
        # Its workers die with it.
        self.figures["workers killed"] += sum(len(copying.workers()) for copying in self.flows)
        os.kill(self.lab.process.pid, signal.SIGKILL)
        self.lab.start_runner()

    def add_a_partition(self) -> None:
        count = self.written.topics[self.plain] + 1
        self.lab.grow(self.plain, count)
        self.written.topics[self.plain] = count

    def change_the_slices(self) -> None:
        for copying in self.flows:
            before = int(copying.flow.job.properties["tasks.max"])
            chosen = self.chance.choice([n for n in (1, 2, 3) if n != before])
            copying.flow.change(properties={"tasks.max": str(chosen)})

    def lose_what_waits(self) -> None:
        """Both flows pause; meanwhile keys are compacted, and records are deleted unread."""
        for copying in self.flows:
            copying.flow.change(desired="paused")
        for copying in self.flows:
            copying.flow.wait_state("paused", seconds=BACK_S)
        tp, reached = (self.cut, 0), self.written.written
        known = [copying.flow.wait(lambda s: s.partitions) for copying in self.flows]
        read = max(position(status, *tp) or 0 for status in known)
        while self.written.written < reached + 4 * A_STRETCH or self._end(tp) < read + 20:
            assert self.written.failure is None
            time.sleep(0.05)
        # The cleaner comes by meanwhile.
        time.sleep(CLEANED_EVERY_MS / 1000 + 1.5)
        self._delete(tp, self._end(tp) - 5)
        for copying in self.flows:
            copying.flow.change(desired="running")
        for copying in self.flows:
            decide(copying.flow, self.cut, "accept", gap_of(copying.flow, self.cut, "deleted"))
            copying.flow.wait_state("running")

    def delete_what_was_copied(self) -> None:
        tp = (self.chance.choice([self.plain, self.keys]), 0)
        known = [copying.flow.wait(lambda s: s.partitions) for copying in self.flows]
        self._delete(tp, min(position(status, *tp) or 0 for status in known))

    def _end(self, tp: TopicPartition) -> int:
        return end_offsets(self.lab.source, tp[0])[tp]

    def _delete(self, tp: TopicPartition, before: int) -> None:
        self.deleted[tp] = max(before, self.deleted.get(tp, 0))
        gone = confluent_kafka.TopicPartition(*tp, before)
        self.lab.on_source.delete_records([gone])[gone].result(20)

    def settle(self) -> dict[TopicPartition, int]:
        """All is copied, and the indexes have taken it in; where each source partition ends."""
        # The markers of the last transactions are still under way when these have ended.
        levels = ("read_committed", "read_uncommitted")
        wait_for(lambda: len({str(self._ends(level)) for level in levels}) == 1, pause=0.2)
        ends = self._ends("read_committed")
        for copying in self.flows:
            copying.flow.wait_copied(ends, seconds=BACK_S)
            copying.flow.stop()
            refresh_index(flow=copying.row)
            for tp, end in ends.items():
                rows.partition(copying.row, *tp, position=end, lane="raw")
        return ends

    def _ends(self, isolation: str) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in self.written.topics:
            ends |= end_offsets(self.lab.source, topic, isolation)
        return ends

    def may_lack(self, tp: TopicPartition) -> set[int]:
        """Compaction may have taken anything unread; of others only what was deleted before."""
        offsets = self.written.offsets[tp]
        if tp[0] in (self.keys, self.thin):
            return set(offsets)
        gone = self.deleted.get(tp, 0) if tp[0] == self.cut else 0
        return {at for at in offsets if at < gone}

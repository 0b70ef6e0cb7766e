"""A flow without a planner: the work of a slice, a driver, and the result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, Run, is_skipped_generation, runs_topic
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.ipc.messages import Figures, PartitionWork, RouteWork, SliceResult, SliceWork
from spark_runner.kafka_protocol.records import Record
from spark_runner.positions.topic import POSITIONS_CONFIGS
from tests.wire.sides import DEADLINE_S, Side, soon, unique

__all__ = ["Driver", "Flow", "Side", "bare", "soon", "unique"]


class Driver:
    """The driver's end of the channel, without a driver."""

    def __init__(self, *, until: Any = None) -> None:
        self.figures: list[Figures] = []
        # The last of each partition: it is asked for at every turn of the engine.
        self._positions: dict[tuple[str, int], int] = {}
        self._until = until or (lambda figures: False)
        self._reported_at = 0.0
        self.shares: list[int | None] = []

    def share(self, first: int | None) -> int | None:
        return self.shares[-1] if self.shares else first

    def order(self) -> str | None:
        return "stop" if self._until(self) else None

    def wait_for_turn(self, deadline_s: float) -> bool:
        return True

    def wait_for_order(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    def due(self, *, moved: bool = True) -> bool:
        # What was committed at once: else an engine with nothing to do says it half a second later.
        return moved or time.monotonic() - self._reported_at > 0.05

    def report(self, figures: Figures) -> None:
        self._reported_at = time.monotonic()
        self.figures.append(figures)
        self._positions |= {(row.topic, row.partition): row.position for row in figures.partitions}

    def position(self, topic: str, partition: int) -> int:
        return self._positions.get((topic, partition), -1)


class Flow:
    """A flow between two sides, planned by hand."""

    def __init__(self, source: Side, target: Side, *, replicas: int = 1, **properties: str) -> None:
        self.source, self.target = source, target
        self.alias = unique("src").replace(".", "")  # as the default separator needs it
        self.spec = ClusterSpec(alias=self.alias, bootstrap_servers=source.spec.bootstrap_servers)
        self.properties = {key.replace("_", "."): value for key, value in properties.items()}
        self.positions_topic = f"mm2-positions.{self.alias}.internal"
        self.runs_topic = runs_topic(self.alias)
        self._replicas = replicas
        target.make(self.positions_topic, replicas=replicas, **_underscored(POSITIONS_CONFIGS))
        self.rows: list[PartitionWork] = []

    def add(
        self,
        topic: str,
        *,
        start: int = 0,
        configs: Mapping[str, str] | None = None,
        routes: Sequence[str] = (),
        **remote: str,
    ) -> str:
        """Copy this topic; its remote topic is made with the given configs, and so are routes."""
        name = f"{self.alias}.{topic}"
        view = self.source.client.describe([topic], soon())[topic]
        made = self.target.make(name, len(view.leaders), replicas=self._replicas, **remote)
        known = {key.replace("_", "."): value for key, value in remote.items()}
        further = tuple(
            RouteWork(
                remote_topic=route,
                remote_topic_id=id_text(
                    self.target.make(
                        route, len(view.leaders), replicas=self._replicas, **remote
                    ).topic_id
                ),
                remote_configs=known,
            )
            for route in routes
        )
        self.rows += [
            PartitionWork(
                topic=topic,
                topic_id=id_text(view.topic_id),
                partition=partition,
                remote_topic=name,
                remote_topic_id=id_text(made.topic_id),
                start=start,
                remote_configs=dict(configs if configs is not None else known),
                routes=further,
            )
            for partition in sorted(view.leaders)
        ]
        return name

    def work(self, *, seconds: float = DEADLINE_S, index: int = 0) -> SliceWork:
        return SliceWork(
            job=1,
            flow=1,
            generation=1,
            name=f"{self.alias}->{self.target.spec.alias}",
            index=index,
            count=1,
            epoch=1,
            deadline=int((time.time() + seconds) * 1000),
            lane="raw",
            source=self.spec,
            target=self.target.spec,
            properties=self.properties,
            source_cluster_id=self.source.client.cluster_id,
            target_cluster_id=self.target.client.cluster_id,
            positions_topic=self.positions_topic,
            transactional_id=f"understudy.{self.alias}->{self.target.spec.alias}.{index}",
            partitions=tuple(self.rows),
        )

    def ends(self) -> dict[tuple[str, int], int]:
        return {
            (topic, partition): end
            for topic in {row.topic for row in self.rows}
            for partition, end in self.source.ends(topic, committed=True).items()
        }

    def copy(
        self, copier: RawCopier | RecordLane | None = None, **how: Any
    ) -> tuple[SliceResult, Driver]:
        """Run one epoch until everything that is there now has been committed."""
        ends = how.pop("ends", None) or self.ends()
        driver = Driver(
            until=lambda driver: all(driver.position(*place) >= end for place, end in ends.items())
        )
        result = (copier or RawCopier()).run(self.work(**how), driver)  # type: ignore[arg-type]
        return result, driver

    def blocks(self) -> dict[bytes, bytes]:
        """The last version of each block of the topic of runs."""
        latest: dict[bytes, bytes] = {}
        for record in self.target.read(self.runs_topic):
            assert record.key is not None
            assert record.value is not None
            if not is_skipped_generation(BlockKey.from_bytes(record.key).generation):
                latest[record.key] = record.value
        return latest

    def runs(
        self,
        topic: str,
        partition: int = 0,
        *,
        blocks: Mapping[bytes, bytes] | None = None,
        into: str = "",
    ) -> list[Run]:
        """All offset runs of a partition, in upstream order, as a reader finds them.

        `into`: only those of the remote topic with this id.
        """
        mine = f'"topic":"{topic}","partition":{partition},'.encode()
        known = self.blocks() if blocks is None else blocks
        return sorted(
            run
            for key, value in known.items()
            if mine in key and (not into or BlockKey.from_bytes(key).into == into)
            for run in read_block(value)
        )


def _underscored(configs: Mapping[str, str]) -> dict[str, str]:
    return {key.replace(".", "_"): value for key, value in configs.items()}


def bare(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """What must be the same on both sides: all but the offset."""
    return [record[1:] for record in records]

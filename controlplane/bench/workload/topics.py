"""Topics of the benchmark: create them and wait until they answer, ask for their ends, delete."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import cast

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from controlplane.bench.errors import BenchError
from mirrors.domain.cluster_snapshot import TopicPartition

_TIMEOUT = 20.0
_DELETED_S = 30.0


class Topics:
    """The topics of one cluster, through one admin client."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._trouble = ""
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=_TIMEOUT).topics)

    def create(
        self, names: Iterable[str], partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        """Create them and wait for every partition to answer.

        A topic that was just made answers NOT_LEADER for a moment, one that was deleted and made
        again for seconds.
        """
        wanted = [
            NewTopic(
                name, num_partitions=partitions, replication_factor=1, config=dict(config or {})
            )
            for name in names
        ]
        try:
            for future in self._admin.create_topics(wanted, request_timeout=_TIMEOUT).values():
                future.result(_TIMEOUT)
        except KafkaException as error:
            raise BenchError(
                f"A topic of the benchmark was not created: {error.args[0].str()}."
            ) from error
        topic_partitions = [
            (topic.topic, number) for topic in wanted for number in range(partitions)
        ]
        until = time.monotonic() + _TIMEOUT
        while self.ends(topic_partitions) is None:
            if time.monotonic() > until:
                raise BenchError(
                    f"New topics did not answer within {_TIMEOUT:.0f} s: {self._trouble}."
                )
            time.sleep(0.1)

    def partitions(self, names: Iterable[str]) -> list[TopicPartition]:
        """The partitions that these topics have now; none for a topic that is not there yet."""
        known = self._admin.list_topics(timeout=_TIMEOUT).topics
        return [
            (name, number) for name in names if name in known for number in known[name].partitions
        ]

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """The end offset of each partition; None while one of them does not answer."""
        newest = cast(OffsetSpec, OffsetSpec._latest)
        wanted = {confluent_kafka.TopicPartition(*tp): newest for tp in partitions}
        if not wanted:
            return {}
        try:
            futures = self._admin.list_offsets(wanted, request_timeout=_TIMEOUT)
            return {
                (part.topic, part.partition): future.result(_TIMEOUT).offset
                for part, future in futures.items()
            }
        except KafkaException as error:
            self._trouble = error.args[0].str()
            # The client remembers a leader that was not elected yet; this makes it look again.
            self.names()
            return None

    def delete(self, names: Iterable[str]) -> None:
        """Delete those of them that are there, and wait until they are gone."""
        doomed = sorted(set(names) & self.names())
        if not doomed:
            return
        for future in self._admin.delete_topics(doomed, request_timeout=_TIMEOUT).values():
            with contextlib.suppress(KafkaException):
                future.result(_TIMEOUT)
        until = time.monotonic() + _DELETED_S
        while self.names() & set(doomed) and time.monotonic() < until:
            time.sleep(0.1)

"""Reads one topic of offset runs to its end, uncommitted records included.

An unclean election may truncate the topic below the offset that was read, and other runs may follow
there. A new reader would not find the lost runs, so they no longer count: the topic is read again
from its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.internal_topics.log_reader import LogReader, Truncated
from mirrors.kafka.protocol.metadata import TopicView, id_bytes, id_text
from mirrors.kafka.retry import RetryBackoff
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import decode_batch

Row = tuple[bytes, bytes | None, int]
"""(key, value, id of the producer of transactions, or -1)"""
log = logging.getLogger(__name__)


class OffsetRunsReader:
    """Blocking. Returns each record once; after a call of `forget`, all of them again."""

    def __init__(self, cluster: ClusterClient, view: TopicView, forget: Callable[[], None]) -> None:
        self._name = view.name
        self._forget = forget
        doing = f"read {view.name} for skip.replicated"
        self._log = LogReader(cluster, view.name, doing=doing, caches_leader=True)
        self._log.seek(id_text(view.topic_id), None, -1)

    @property
    def topic_id(self) -> bytes:
        return id_bytes(self._log.topic_id)

    def read(self, deadline: float) -> Iterator[Row]:
        """All records up to the current end."""
        backoff = RetryBackoff(deadline)
        while True:
            try:
                for batch in self._log.read_all(deadline, with_outcome=False):
                    if not batch.is_control:
                        for record in decode_batch(batch.data):
                            yield record.key or b"", record.value, batch.producer_id
            except KafkaUnavailable:
                if not backoff.wait():
                    raise
            except Truncated:
                log.warning("%s was truncated below the offset read; reading it again", self._name)
                self._log.restart()
                self._forget()
            else:
                return

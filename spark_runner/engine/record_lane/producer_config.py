"""Configuration of the record lane's producer: the flow's settings, else defaults for copying."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaException, Producer

from mirrors.kafka.connection.client_config import client_config, to_librdkafka
from mirrors.kafka.errors import error_of_client
from mirrors.kafka.producers import transactions
from spark_runner.ipc.messages import PartitionWork, SliceWork

_LARGEST_RECORD = 1_000_000_000
_DEFAULT_BATCH = 1_000_000

_DEFAULTS = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "batch.size": _DEFAULT_BATCH,
    "queue.buffering.max.kbytes": 65_536,
    "delivery.timeout.ms": 45_000,
    "message.max.bytes": _LARGEST_RECORD,
}


def open_producer(work: SliceWork) -> Producer:
    """A producer for one epoch; with `delivery` exactly_once a transactional one, not initialized
    yet.

    Waits for no broker. Raises KafkaRefused or KafkaUnavailable when librdkafka rejects the config.
    """
    settings = work.spec.settings
    chosen = _config(settings.producer, work.partitions)
    try:
        if settings.delivery == "exactly_once":
            return transactions.open_producer(
                work.target,
                work.transactional_id,
                extra=chosen,
                commit_interval_ms=settings.commit_interval_ms,
            )
        return _plain_producer(work, chosen)
    except KafkaException as error:
        raise error_of_client(error, where=work.target.alias, doing="open a producer") from None


def _config(tuning: dict[str, str], partitions: Iterable[PartitionWork]) -> dict[str, object]:
    """Our defaults below the flow's settings; no batch larger than the smallest topic limit."""
    asked = to_librdkafka(tuning, "producer")
    config: dict[str, object] = {**_DEFAULTS, **asked}
    limits = [
        int(row.remote_configs.get("max.message.bytes", _DEFAULT_BATCH)) for row in partitions
    ]
    config["batch.size"] = max(1, min([int(str(config["batch.size"])), *limits]))
    return config


def _plain_producer(work: SliceWork, chosen: dict[str, object]) -> Producer:
    own = {**chosen, "enable.idempotence": True, "acks": "all"}
    return Producer(
        client_config(work.target, client_id="understudy-writer", role="producer", extra=own)
    )

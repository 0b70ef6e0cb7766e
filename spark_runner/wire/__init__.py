"""Kafka as bytes: sockets, messages, batches, transactions."""

from spark_runner import compiled

compiled.use()

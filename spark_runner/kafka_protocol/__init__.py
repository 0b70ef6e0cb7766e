"""Kafka as bytes: sockets, messages, batches, transactions."""

from spark_runner.native import loader

loader.use()

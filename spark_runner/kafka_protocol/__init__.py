"""Kafka's protocol in the engine's own encoding: connections, messages, record batches."""

from spark_runner.native import loader

loader.use()

"""Benchmark of the raw lane alone: no Spark, one process, real brokers."""

"""Measure the raw lane by itself: no Spark, one process, real brokers."""

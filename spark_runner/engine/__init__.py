"""Copies one slice: reads batches from the source, checks or rewrites them, writes them and
commits."""

from spark_runner.native import loader

loader.use()

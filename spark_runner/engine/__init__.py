"""How batches cross: what is read, checked, written anew where it must be, sent and counted."""

from spark_runner.native import loader

loader.use()

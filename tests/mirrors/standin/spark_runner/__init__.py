"""A stand-in for the Spark runner: the same files and signals, no Spark, no Kafka."""

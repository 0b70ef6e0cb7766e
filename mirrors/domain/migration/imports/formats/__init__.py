"""The files that are imported: properties of MirrorMaker 2 and 1, Kafka Connect, Strimzi."""

"""The whole product between real brokers of different Kafka versions."""

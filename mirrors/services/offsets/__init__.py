"""The index of offset runs, kept up with Kafka, and the answers from it."""

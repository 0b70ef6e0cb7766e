"""The pages of clusters, runners and flows: they read rows, call services, never ask Kafka."""

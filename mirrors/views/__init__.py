"""Pages of clusters, runners and flows. They read rows and call services; they never call Kafka."""

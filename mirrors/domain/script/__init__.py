"""A failover plan as a shell script that needs Kafka's own tools and nothing of ours."""

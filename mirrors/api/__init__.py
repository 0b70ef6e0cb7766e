"""The REST API of clusters, runners and flows."""

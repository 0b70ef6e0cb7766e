"""Comparison of both clusters of a flow: life cycle, worker, metadata and records."""

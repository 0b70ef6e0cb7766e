"""Comparison of both clusters in Spark: tasks read ranges of both sides and return digests."""

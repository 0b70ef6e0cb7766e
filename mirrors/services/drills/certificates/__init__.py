"""Signed certificates of drills and of failover runs."""

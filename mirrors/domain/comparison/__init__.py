"""Comparison of a flow's two clusters: what differs, and at which offsets."""

"""Offsets of consumer groups as read from both clusters, and their summaries for lists."""

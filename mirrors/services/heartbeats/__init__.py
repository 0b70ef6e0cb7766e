"""Heartbeats of all flows: turns, connections, and what arrives."""

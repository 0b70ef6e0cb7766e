"""Tests of what is seen: summaries, overview, later lag and alerts."""

"""Tests of monitoring: summaries, overview, lag history and alerts."""

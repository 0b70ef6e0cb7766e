"""Retention of offset runs: deletes those that no longer translate an offset."""

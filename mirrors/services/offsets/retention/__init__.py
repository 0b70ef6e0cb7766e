"""Deletion of offset runs that no longer translate an offset."""

"""Findings of drift, of topics and of schemas."""

"""Sync tasks: their schedule and their runs."""

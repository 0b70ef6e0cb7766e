"""Drills: objectives, schedules, runs, and signed certificates."""

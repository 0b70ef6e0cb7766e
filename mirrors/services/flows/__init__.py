"""Flows: settings, commands, jobs, progress, schedules and the reconciler."""

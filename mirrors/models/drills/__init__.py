"""Drills: objectives, schedules, runs, certificates, and the readiness of a flow."""

"""Synchronizes the schema registries of a flow's clusters."""

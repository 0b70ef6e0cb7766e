"""Synchronization of topics, their configs and ACLs; manual changes on the target."""

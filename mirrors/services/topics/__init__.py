"""Sync tasks of topics, their configs and ACLs; drift, which is manual change on the target."""

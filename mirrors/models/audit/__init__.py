"""The audit log: the chain of entries and the events of each object."""

"""Blockers and warnings of a failover: partitions, settings and ACLs of the target, permissions."""

"""Failback after a failover: life cycle, preparation, orphans, groups, switchover."""

"""Failback after a failover: where both sides diverged, what each wrote since, and what to do."""

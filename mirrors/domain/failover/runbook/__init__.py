"""A failover executed as a runbook: its nine steps, the next move, and when it must stop."""

"""A failover executed as a runbook: its nine steps, what comes next, when it must stop."""

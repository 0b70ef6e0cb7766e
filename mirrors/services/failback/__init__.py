"""The way back after a failover: ways back as rows, orphans, groups, the switch."""

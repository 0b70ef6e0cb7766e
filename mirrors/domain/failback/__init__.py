"""The way back after a failover: where both sides parted, what came after on each, what to do."""

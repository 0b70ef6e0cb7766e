"""What a failover would do, what a simulation of one has proven, and what clients change."""

"""The simulation of a failover: resume offsets, checked by reading the target."""

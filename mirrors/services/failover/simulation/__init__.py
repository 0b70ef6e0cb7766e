"""Simulation of a failover: resume offsets, verified by reading the target."""

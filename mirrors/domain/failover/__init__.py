"""Failover: what it would do, what a simulation verified, and what clients have to change."""

"""Failover: life cycle of runs, plan inputs, simulation, runbook, decisions to leave behind."""

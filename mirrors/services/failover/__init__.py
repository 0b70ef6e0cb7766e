"""Failovers as rows, their plans from both sides, and the simulation that proves one."""

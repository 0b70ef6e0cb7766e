"""Execution of switchovers and failovers, step by step; each row is stored before its effect."""

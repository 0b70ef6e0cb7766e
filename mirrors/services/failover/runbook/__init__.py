"""Switchovers and failovers done for real, step by step: rows first, then the act."""

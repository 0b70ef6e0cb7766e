"""Comparing both clusters of a flow: rows.py keeps it, turn.py does it, the rest are its parts."""

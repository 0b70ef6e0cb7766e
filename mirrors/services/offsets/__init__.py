"""Offset translation: the index of offset runs, its refresh, its retention, MM2's bounds."""

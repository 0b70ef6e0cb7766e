"""Reads and writes schema registries."""

"""Clusters, flows and their parts as YAML files: read, planned, applied in one transaction."""

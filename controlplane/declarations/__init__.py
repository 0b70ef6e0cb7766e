"""Clusters, flows and alert rules as YAML files: read, planned, applied in one transaction."""

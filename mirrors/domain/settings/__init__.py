"""The settings of flows and clusters: values, defaults, and settings that are rejected."""

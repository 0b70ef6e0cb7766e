"""The settings of flows and clusters: what each takes, its default, and those that are refused."""

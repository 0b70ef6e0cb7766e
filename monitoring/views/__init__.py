"""Pages of monitoring: overview, topology, schedules, alerts, charts."""

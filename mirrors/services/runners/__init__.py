"""Runner processes: settings, logs, process checks, cleanup."""

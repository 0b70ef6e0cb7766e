"""Our own state on the target cluster: its backup, and the rebuild from it."""

"""The control plane's state on a standby cluster: its backup, and the rebuild from it."""

"""The audit log: what happens to accounts, refused requests, and the chain of entries."""

"""Rules of the audit log: who acts, and how its entries form a chain."""

"""Pages of accounts, search and help."""

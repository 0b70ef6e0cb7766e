"""Who may do what: roles, grants, and the filter of every list."""

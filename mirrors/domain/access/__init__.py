"""Who may do what with which object: rights, roles, grants, and the address of each object."""

"""Access: the gate of every address, grants of roles, approvals by a second person."""

"""Two clusters of a flow beside each other: what differs, and where exactly."""

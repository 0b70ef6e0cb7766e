"""What a flow keeps of itself on its target cluster, and what an empty database takes from it."""

"""What a flow stores of itself on its target, and what an empty database restores from it."""

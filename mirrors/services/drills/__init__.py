"""What is kept as proof: objectives, drills, signed certificates."""

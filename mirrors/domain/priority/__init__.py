"""Which topics go first when not everything can be read at once, and what the others still get."""

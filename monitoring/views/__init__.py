"""Pages of what is seen: the overview, a flow's charts."""

"""REST of flows: the flow itself, and its topics, partitions, jobs and transitions."""

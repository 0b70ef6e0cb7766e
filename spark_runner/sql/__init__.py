"""Rules on records, evaluated by Spark SQL beside the copy loop.

One Spark job per epoch of a slice, with one task and no shuffle: `mapInArrow(copy)`, the
expressions, `mapInArrow(return)`. The copy loop runs in the first Python worker. It sends the
columns that the rules use, and receives the results from the second worker over a local socket.
"""

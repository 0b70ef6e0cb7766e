"""Import of MirrorMaker configurations, with a verdict on each of their lines."""

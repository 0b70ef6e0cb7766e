"""A flow's settings, and what it is asked to do. The reconciler makes it so."""

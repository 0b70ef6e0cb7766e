"""Consumer groups of a flow on both sides: checkpoints, offset syncs, synchronized groups."""

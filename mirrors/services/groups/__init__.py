"""Consumer groups of a flow: survey, rows, checkpoints, offset syncs, offsets on the target."""

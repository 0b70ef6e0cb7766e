"""Consumer groups of a flow: where they stand, their rows, checkpoints, and offsets that follow."""

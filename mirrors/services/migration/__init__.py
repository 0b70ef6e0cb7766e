"""Migration: import, export, takeover of a running MirrorMaker 2, flow templates."""

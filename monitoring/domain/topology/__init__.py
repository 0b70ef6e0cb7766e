"""The layout of the topology: deterministic for the same clusters and flows."""

from monitoring.domain.topology.drawing import Box, Drawing, Line, draw, thickness
from monitoring.domain.topology.graph import reaches

__all__ = ["Box", "Drawing", "Line", "draw", "reaches", "thickness"]

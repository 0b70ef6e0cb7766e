"""The picture of clusters and flows: which column, which place, which line; the same every time."""

from monitoring.domain.topology.drawing import Box, Drawing, Line, draw, thickness
from monitoring.domain.topology.graph import reaches

__all__ = ["Box", "Drawing", "Line", "draw", "reaches", "thickness"]

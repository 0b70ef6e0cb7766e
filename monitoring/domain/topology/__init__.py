"""The layout of the topology: deterministic for the same clusters and flows."""

from monitoring.domain.topology.drawing import Box, Connector, Drawing, draw, thickness
from monitoring.domain.topology.graph import reaches

__all__ = ["Box", "Connector", "Drawing", "draw", "reaches", "thickness"]
